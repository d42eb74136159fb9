"""Configs: everything that decides a run's numbers."""
