"""Two or more jobs → the differences of their figures, with confidence intervals.

In: Summaries, and for align= the logs of rank 0. Out: Comparisons, and their text. This package runs nothing.
"""
