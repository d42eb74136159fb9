"""Counts texts that MediaPipe's tokenizer reads differently from training.

Prints a table: for each set of texts without extra lines in vocab.txt, with the
lines for letters, and with the lines for words from other texts of the same
source, as `kdkit export` adds them. docs/mediapipe.md contains the result.

example:
  python experiments/mediapipe_texts.py --data-dir ../shared/data
"""

import argparse
import csv
import pathlib

import numpy as np

from kdkit.export.mediapipe_tokens import MediaPipeTokenizer
from kdkit.export.mediapipe_tokens import differences
from kdkit.export.mediapipe_tokens import extra_lines
from kdkit.models import load_tokenizer

LENGTH = 128
NUM_TEXTS = 5000  # counted, the others give the lines for words


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=pathlib.Path, required=True)
    folder = parser.parse_args().data_dir
    tokenizer = load_tokenizer(folder / "vocab" / "bert-base-uncased-vocab.txt")
    reviews = read_column(folder / "imdb_unlabeled" / "reviews.tsv", 1)
    french = (folder / "multi30k" / "train.fr").read_text("utf-8").split("\n")
    sst2 = [
        read_column(folder / "glue" / "SST-2" / f"{split}.tsv", 0)
        for split in ("dev", "train")
    ]
    for name, texts, others in (
        ("SST-2 dev", *sst2),
        ("IMDB", reviews[:NUM_TEXTS], reviews[NUM_TEXTS:]),
        ("Multi30k fr", french[:NUM_TEXTS], french[NUM_TEXTS:-1]),
    ):
        ours = [
            [tokenizer.start_token_id, *ids, tokenizer.end_token_id]
            for ids in (
                np.asarray(row)[: LENGTH - 2] for row in tokenizer(texts)
            )
        ]
        for title, lines in (
            ("none", {}),
            ("letters", extra_lines(tokenizer)),
            ("words", extra_lines(tokenizer, others)),
        ):
            pieces = tokenizer.get_vocabulary()
            ids = [*range(len(pieces)), *lines.values()]
            theirs = MediaPipeTokenizer([*pieces, *lines])
            found = differences(
                [[ids[one] for one in theirs(text, LENGTH)] for text in texts],
                ours,
                texts,
                tokenizer,
                name,
            )
            print(f"{title}: {len(lines)} lines, {found}", flush=True)


def read_column(path, column):
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows)
        return [row[column] for row in rows]


if __name__ == "__main__":
    main()
