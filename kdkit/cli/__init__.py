"""The command line: verbs, nothing else."""
