"""Tecorigin's ModelZoo: a case → the folder of its adaptation guide; such a folder → its faults.

guide.py holds the requirements of the guide. dllogger_log.py reads the log of a short run; it shares nothing with our
sink, which writes such logs. docs/modelzoo.md lists the gaps and contradictions of the guide.
"""
