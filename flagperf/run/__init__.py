"""Jobs → Outcomes and Results. jobs.py is the loop over jobs, rounds.py the one over their rounds.

execute.py executes a round: its phases on all nodes. What came of it is printed and written by cli/ and report/.
"""
