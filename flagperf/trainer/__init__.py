"""Inside the training processes: `python -m flagperf.trainer config.yaml`, under torchrun.

__main__.py     one rank from start to exit code
loop.py         the one loop of every PyTorch case; read this first
task.py         what the loop asks of a model
"""
