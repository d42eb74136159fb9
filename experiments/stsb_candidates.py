"""Writes queries with candidates from STS-B, for `reranker_to_embedder`.

A query is the first sentence of a pair, and its positive the second one, if
people gave the pair a score of 4 or more. The negatives are other sentences of
the split with similar words (by TF-IDF), of which people scored none 3 or more
with the query. So they are likely, but not certain, to be worse.

    python experiments/stsb_candidates.py glue candidates
    kdkit train-teacher --task stsb --data-dir glue --epochs 4 \\
        --model all-MiniLM-L6-v2 --run-dir runs/cross_encoder
    kdkit distill reranker_to_embedder --candidates candidates/train.tsv \\
        --dev-candidates candidates/dev.tsv --teacher runs/cross_encoder \\
        --student all-MiniLM-L6-v2 --pooling mean --layers 1 6 --control \\
        --run-dir runs/retriever
"""

import argparse
import pathlib

from sklearn.feature_extraction.text import TfidfVectorizer

from kdkit import tasks

POSITIVE, RELATED = 4.0, 3.0
NUM_NEGATIVES = 7


def rows_of(examples):
    """Yields the cells of each query of a split."""
    pairs = list(zip(*examples.texts, examples.labels.reshape(-1), strict=True))
    sentences = list(dict.fromkeys(text for one in pairs for text in one[:2]))
    related = {text: {text} for text in sentences}
    for first, second, score in pairs:
        if score >= RELATED:
            related[first].add(second)
            related[second].add(first)
    vectors = TfidfVectorizer().fit_transform(sentences)
    for first, second, score in pairs:
        if score < POSITIVE or first == second:
            continue
        cosines = (vectors @ vectors[sentences.index(first)].T).toarray()[:, 0]
        others = [
            sentences[place]
            for place in (-cosines).argsort(kind="stable")
            if sentences[place] not in related[first]
        ]
        yield first, second, *others[:NUM_NEGATIVES]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data_dir", help="the folder with STS-B/")
    parser.add_argument("output", help="the folder for train.tsv and dev.tsv")
    options = parser.parse_args()
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"negative_{one + 1}" for one in range(NUM_NEGATIVES)]
    for split in ("train", "dev"):
        examples = tasks.get_task("stsb").load(split, options.data_dir)
        lines = [("query", "positive", *names), *rows_of(examples)]
        (folder / f"{split}.tsv").write_text(
            "".join("\t".join(line) + "\n" for line in lines), encoding="utf-8"
        )
        print(f"{split}: {len(lines) - 1} queries")


if __name__ == "__main__":
    main()
