"""Runs: one function, kinds of runs, their directories and events."""
