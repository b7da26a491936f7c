"""Ways to get hosts for jobs: one module or folder each, behind the interface of interface.py, found by its name.

In: jobs. Out: what would be asked (a dry run prints it), then hosts, or a run that goes on without this launcher. What
runs on the hosts is decided in plan/ and run/.
"""
