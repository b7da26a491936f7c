"""The trace of one optimizer step at full size, without a device.

    python -m flagperf.trainer.pytorch.trace config.yaml …

In: configurations as a rank gets them. Out: a line of JSON for each, which is a Trace (flagperf/contract/trace.py) or
says why there is none. Tensors have shapes and no values, so that a network of any size fits into a small process.

__main__.py     the program
traced.py       a configuration → a Trace: by shapes, or by values where values decide shapes
stand_in.py     a rank with no device and no other ranks: its network, process group and batch
step.py         one optimizer step, as the engine makes it
uncomputed.py   matrix products without numbers, where values decide shapes
pipeline.py     the ranks of a pipeline that are traced, and how a schedule runs their stages
as_on_device.py what a device does otherwise than the CPU whose kernels the trace runs through
attention.py    attention as a device keeps it in memory
tally.py        what the step computes, reads, writes and sends
memory.py       what the step holds, and when it holds most
operators.py    the class of an operator and its operations
chains.py       traffic where neighbouring element-wise operators are one kernel
collectives.py  what a collective operation sends, and among whom
blocks.py       equal blocks of a network: a few of them are enough
record.py       counts of a step, or of the ranks of a pipeline → a Trace
linear.py       counts at two sizes → counts at a third
"""
