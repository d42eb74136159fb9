"""Semantic search over captions with a small encoder, in plain Keras.

    python examples/semantic_search.py runs/encoder/student train.en \\
        "two dogs fight over a ball" "someone makes music in the street"

The first argument is the student's folder in a run of `kdkit distill
sentence_embedding`. keras-hub loads it without kdkit.
"""

import pathlib
import sys

import keras_hub
import numpy as np

student, file, *queries = sys.argv[1:]
captions = pathlib.Path(file).read_text("utf-8").splitlines()[:10_000]
embedder = keras_hub.models.TextEmbedder.from_preset(student)
embedder.preprocessor.sequence_length = 32  # tokens; captions are short
vectors = embedder.predict(captions, batch_size=256, verbose=0)
questions = embedder.predict(queries, verbose=0)

# Vectors have length 1, so products are cosines.
for query, cosines in zip(queries, questions @ vectors.T, strict=True):
    print(query)
    for number in np.argsort(-cosines)[:5]:
        print(f"    {cosines[number]:.3f} {captions[number]}")
