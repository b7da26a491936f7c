"""Summaries and configuration → the pages that partners ask for, in Markdown: of a case, a model and a vendor.

Each kind has one template in templates/. The page names each missing figure, with the command that measures it.
partners/flagperf/readme.py decides how a table of results is written, for `docs submission` too.
"""
