"""Two or more jobs → how their figures differ, and whether the rounds can tell.

In: Summaries. Out: Comparisons, and their text. Nothing is run, and no log is read here.
"""
