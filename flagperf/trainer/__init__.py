"""Inside the training processes: `python -m flagperf.trainer config.yaml`, once a rank.

config.yaml comes in; a rank's PerfLog and exit status go out. Here lies what every framework shares:

__main__.py     one rank from start to exit status
ranks.py        the ranks of a job, and what they tell each other
loop/           the training: training.py is the loop, engine.py what the loop asks of a framework
data/           which samples each rank gets, and whether all ranks see the same
checkpoints/    files of checkpoints and weights
identity/       what identifies hardware, software, network and recipe
start/          how ranks start, and what they import
sinks/          log formats beside PerfLog

A folder, such as pytorch/, has the engine of one framework and all that knows the framework.
"""
