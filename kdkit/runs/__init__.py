"""Runs: directories, logs, settings, the runner, and chains of runs."""
