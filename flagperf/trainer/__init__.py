"""Inside the training processes: `python -m flagperf.trainer config.yaml`, once a rank.

config.yaml comes in; a rank's PerfLog and exit status go out. Here lies what every framework shares:

__main__.py     one rank from start to exit status
framework.py    finds the package of the configuration's framework
start.py        starts the ranks of a node, for a framework without a launcher of its own
settings.py     the settings of a training, with their defaults
agenda.py       when to log, evaluate, save and stop
clock.py        where the time goes; records.py: what is logged of a step
batches.py      which samples each rank gets
trained.py      what a training measured on one rank
figures.py      the figures of the whole job; finish.py: FINISHED
sinks/          log formats beside PerfLog

A folder, such as pytorch/, has the loop of one framework and all that knows it.
"""
