"""Helpers of the tests: models, data, runs, goldens."""
