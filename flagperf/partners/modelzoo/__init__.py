"""Tecorigin's ModelZoo: a case → the folder that its adaptation guide asks for; such a folder → what is wrong in it.

What the guide asks for stands once, in guide.py. The log that a short run writes is read by dllogger_log.py, which
shares nothing with the sink that writes ours. docs/modelzoo.md tells where the guide is silent or says two things.
"""
