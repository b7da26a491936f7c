"""Summaries of a run → its figures for other programs: a record for benchmark.json, and tables for spreadsheets.

Comes in: what flagperf.report read of a run. Goes out: FILE.json, FILE.csv or FILE.xlsx.
Not done here: what a figure is (docs/results.md), and how people read it (flagperf.report).
"""
