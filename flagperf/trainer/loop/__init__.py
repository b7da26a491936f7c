"""The training itself: when to log, evaluate, save and stop; measurements. No framework.

train.py        one training on this rank, from BUILT to FINISHED
training.py     the loop; read this first
engine.py       the interface of a framework
standard.py     an engine made of the calls of a framework, which calls.py lists; task.py: the interface of a model
agenda.py       when to log, evaluate, save and stop
device.py       the device of a rank
clock.py        the time of each part of a training; records.py: the log records of a step
trained.py      the measurements of one rank; figures.py: the figures of the whole job; finish.py: FINISHED
schedule.py     the identity of a schedule
supported.py    settings that only PyTorch has
"""
