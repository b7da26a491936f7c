"""Two or more jobs → how their figures differ, and whether the rounds can tell.

In: Summaries, and for align= the logs of rank 0. Out: Comparisons, and their text. Nothing is run here.
"""
