"""Jobs → Outcomes and Results: jobs.py is the loop over jobs, rounds.py the one over their rounds, execute.py executes a
round: its phases on all nodes. Prints how a run goes; report/ writes what came of it.
"""
