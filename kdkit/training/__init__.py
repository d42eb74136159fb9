"""Training: data sources, and the training of stages."""
