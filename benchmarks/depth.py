"""Parameters and inference time of BERT with 3, 6 and 12 blocks.

    python benchmarks/depth.py

Patient KD's table 4 on this machine: forward passes of BERT-base and of its
students, batch 8 of 128 tokens in float32, in turn in one process. The paper
has 105,000 rows of QNLI in batches of 128 on a GPU in half precision. Weights
are random, on which the time does not depend.

The last line is a JSON object. The exit status is 1 if the speed-up is less
than nine tenths of the paper's.
"""

import argparse
import json
import os
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from measuring import compiled_forward, median_seconds, random_batch
from rich.console import Console
from rich.table import Table

from kdkit import models

# By number of blocks: preset, the paper's parameters in millions, speed-up.
PAPER = {
    3: ("bert_3_layer_en_uncased", 45.7, 3.73),
    6: ("bert_6_layer_en_uncased", 67.0, 1.94),
    12: ("bert_base_en_uncased", 109.0, 1.0),
}
SHARE_OF_PAPER = 0.9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    built = {
        blocks: models.student(preset, num_classes=2)
        for blocks, (preset, _, _) in PAPER.items()
    }
    vocabulary_size = built[12].backbone.vocabulary_size
    inputs, _ = random_batch(
        options.batch_size, options.sequence_length, vocabulary_size
    )
    medians = median_seconds(
        {
            blocks: compiled_forward(model, inputs)
            for blocks, model in built.items()
        },
        options.rounds,
    )
    rows = [
        describe(blocks, built[blocks], medians[12] / medians[blocks])
        | {"median_ms": round(1000 * medians[blocks], 1)}
        for blocks in PAPER
    ]
    print_table(rows)
    missed = [
        f"{row['blocks']} blocks: {row['speed_up']}, the paper has "
        f"{row['paper_speed_up']}"
        for row in rows
        if row["speed_up"] < SHARE_OF_PAPER * row["paper_speed_up"]
    ]
    print(
        json.dumps(
            {
                "benchmark": "depth",
                "batch_size": options.batch_size,
                "sequence_length": options.sequence_length,
                "rows": rows,
                "missed": missed,
            }
        )
    )
    return 1 if missed else 0


def describe(blocks, model, speed_up):
    """Parameters in millions by part, and the speed-up over 12 blocks."""
    backbone = model.backbone
    in_blocks = sum(
        block.count_params() for block in backbone.transformer_layers
    )
    embeddings = sum(
        getattr(backbone, f"{name}_embedding").count_params()
        for name in ("token", "position", "segment")
    )
    _, paper_parameters, paper_speed_up = PAPER[blocks]
    return {
        "blocks": blocks,
        "parameters": round(model.count_params() / 1e6, 1),
        "in_embeddings": round(embeddings / 1e6, 1),
        "in_blocks": round(in_blocks / 1e6, 1),
        "paper_parameters": paper_parameters,
        "speed_up": round(speed_up, 2),
        "paper_speed_up": paper_speed_up,
    }


def print_table(rows):
    columns = {
        "blocks": "blocks",
        "in_embeddings": "embeddings, M",
        "in_blocks": "blocks, M",
        "parameters": "all, M",
        "paper_parameters": "paper's, M",
        "median_ms": "median ms",
        "speed_up": "speed-up",
        "paper_speed_up": "paper's",
    }
    table = Table(*columns.values())
    for row in rows:
        table.add_row(*(str(row[name]) for name in columns))
    Console(width=100).print(table)


if __name__ == "__main__":
    sys.exit(main())
