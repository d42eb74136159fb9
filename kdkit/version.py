"""The version of kdkit, read by setup.py without importing kdkit."""

__version__ = "0.1.0"
