"""Runs: directories, logs, settings, and the runners."""
