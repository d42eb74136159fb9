"""The version of kdkit, read by setup.py without importing kdkit."""

__version__ = "0.2.0"
