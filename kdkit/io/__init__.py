"""Files, locks, memory limits, signals, network: nothing about models."""
