"""Inside the training processes: `python -m flagperf.trainer config.yaml`, under torchrun.

config.yaml comes in; a rank's PerfLog and exit status go out. Here lies what every framework shares:

__main__.py     one rank from start to exit status
framework.py    finds the package of the configuration's framework
settings.py     the settings of a training, with their defaults
agenda.py       when to log, evaluate, save and stop
trained.py      what a training measured on one rank
figures.py      the figures of the whole job
sinks/          log formats beside PerfLog

pytorch/ has the loop and all that knows torch.
"""
