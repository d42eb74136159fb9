"""Semantic search over captions with an exported file, without Keras.

    kdkit export runs/encoder --precision int8 --sequence-length 32
    kdkit export runs/encoder --format sentence_transformers
    python examples/semantic_search_exported.py \\
        runs/encoder/exports/student-int8.tflite \\
        runs/encoder/exports/student-sentence_transformers/tokenizer.json \\
        train.en "two dogs fight over a ball"

Needs `ai-edge-litert`, `tokenizers` and `numpy`.
"""

import pathlib
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from tokenizers import Tokenizer

model, tokenizer, file, *queries = sys.argv[1:]
captions = pathlib.Path(file).read_text("utf-8").splitlines()[:10_000]
run = Interpreter(model, num_threads=2).get_signature_runner()
shapes = {
    name: details["shape"] for name, details in run.get_input_details().items()
}
length = shapes["token_ids"][1]
tokenizer = Tokenizer.from_file(tokenizer)
tokenizer.enable_truncation(int(length))
tokenizer.enable_padding(length=int(length))


def vector(text):
    """Returns the vector of a text, of length 1."""
    tokens = tokenizer.encode(text)
    values = {
        "token_ids": tokens.ids,
        "segment_ids": tokens.type_ids,
        "padding_mask": tokens.attention_mask,
    }
    (output,) = run(
        **{name: np.array([values[name]], "int32") for name in shapes}
    ).values()
    return output[0]


vectors = np.stack([vector(caption) for caption in captions])
for query in queries:
    cosines = vectors @ vector(query)
    print(query)
    for number in np.argsort(-cosines)[:5]:
        print(f"    {cosines[number]:.3f} {captions[number]}")
