"""Inside the training processes: `python -m flagperf.trainer config.yaml`, once a rank.

config.yaml comes in; a rank's PerfLog and exit status go out. All frameworks share:

__main__.py     one rank from start to exit status
ranks.py        the ranks of a job, and their messages; array_ranks.py: messages by sums of arrays
loop/           the training: training.py is the loop, engine.py the interface of a framework
data/           the samples of each rank, and a check that all ranks see the same data
checkpoints/    files of checkpoints and weights
identity/       identities of hardware, software, network and recipe
start/          start and imports of the ranks
sinks/          log formats beside PerfLog

A folder such as pytorch/ holds the engine of one framework, and all code that depends on it.
"""
