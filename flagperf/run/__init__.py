"""Jobs → Outcomes and Results. jobs.py is the loop over jobs, rounds.py the one over their rounds.

execute.py executes a round: its phases on all nodes. cli/ and report/ print and write the results.
"""
