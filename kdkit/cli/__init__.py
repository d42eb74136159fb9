"""The command line: its parser and one module per verb."""
