"""The training itself: what is due when, what is measured and logged. No framework.

train.py        one training on this rank, from BUILT to FINISHED
training.py     the loop; read this first
engine.py       what the loop asks of a framework
standard.py     an engine of the calls of a framework, which calls.py lists; task.py: what the engine asks of a model
agenda.py       when to log, evaluate, save and stop
clock.py        where the time goes; records.py: what is logged of a step
trained.py      what a training measured on one rank; figures.py: the figures of the whole job; finish.py: FINISHED
schedule.py     what identifies a schedule
supported.py    settings that only PyTorch has
"""
