"""Summaries of a run → its figures for other programs: a record for benchmark.json, and tables for spreadsheets.

In: the Summaries of a run, as flagperf.report reads them. Out: FILE.json, FILE.csv or FILE.xlsx.
Not done here: the meaning of a figure (docs/results.md), and texts for people (flagperf.report).
"""
