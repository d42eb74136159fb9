"""kdkit: distil transformers with Keras, measure the cost, ship the result."""
