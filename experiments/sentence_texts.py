"""Writes the texts that experiments/sentence_encoders.sh learns from.

Every different caption of Multi30k and every sentence of MRPC's and STS-B's
training pairs is used; phrases of SST-2, and sentences of Penn Treebank, IMDB's
reviews and RACE's passages fill up in equal parts, evenly spaced in their
files. No text is from a dev or test split.

    python experiments/sentence_texts.py DATA runs/data/sentences.txt
"""

import argparse
import csv
import itertools
import json
import pathlib
import re
import sys

END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"'(]?[A-Z])")
LEAST_WORDS = 4  # shorter sentences say little
WHOLE = ("captions", "mrpc", "stsb")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path, help="of the data sets")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=60_000, help="of texts")
    options = parser.parse_args()
    found = {name: different(read(options.data)) for name, read in READ.items()}
    whole = [text for name in WHOLE for text in found.pop(name)]
    left = options.count - len(whole)
    if left < len(found) or sum(map(len, found.values())) < left:
        parser.error(
            f"--count must be from {len(whole) + len(found)} to "
            f"{len(whole) + sum(map(len, found.values()))}."
        )
    texts = whole
    for number, (name, ones) in enumerate(
        sorted(found.items(), key=lambda item: len(item[1]))
    ):
        share = min(len(ones), left // (len(found) - number))
        left -= share
        chosen = [ones[index * len(ones) // share] for index in range(share)]
        print(f"{name}: {len(chosen)} of {len(ones)}")
        texts += chosen
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text("\n".join(texts) + "\n", encoding="utf-8")
    print(f"{options.output}: {len(texts)} texts")
    return 0


def different(texts):
    """Returns the different texts of enough words, in their order."""
    return list(
        dict.fromkeys(
            text
            for text in (" ".join(text.split()) for text in texts)
            if len(text.split()) >= LEAST_WORDS
        )
    )


def lines(path):
    """Yields the lines of a file."""
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        yield from file


def columns(path, *places):
    """Yields columns of a table, without its heading."""
    rows = csv.reader(lines(path), delimiter="\t", quoting=csv.QUOTE_NONE)
    for row in itertools.islice(rows, 1, None):
        yield from (row[place] for place in places)


def reviews(data):
    """Yields the sentences of IMDB's reviews."""
    for path in sorted((data / "imdb_unlabeled").glob("*.tsv")):
        for text in columns(path, 1):
            yield from END_OF_SENTENCE.split(text.replace("<br />", " "))


def passages(data):
    """Yields the sentences of RACE's training passages."""
    articles = set()
    for line in lines(data / "race_middle" / "train_middle.jsonl"):
        article = json.loads(line)["article"]
        if article not in articles:
            articles.add(article)
            yield from END_OF_SENTENCE.split(article)


READ = {
    "captions": lambda data: lines(data / "multi30k" / "train.en"),
    "mrpc": lambda data: columns(data / "glue" / "MRPC" / "train.tsv", 3, 4),
    "stsb": lambda data: columns(data / "glue" / "STS-B" / "train.tsv", 7, 8),
    "sst2": lambda data: columns(data / "glue" / "SST-2" / "train.tsv", 0),
    "ptb": lambda data: lines(data / "ptb" / "ptb.train.txt"),
    "imdb": reviews,
    "race": passages,
}

if __name__ == "__main__":
    sys.exit(main())
