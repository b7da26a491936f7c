"""The command line: one file a verb. Only here is anything printed, and only `main` exits."""
