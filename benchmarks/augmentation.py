"""Words augmented per second, and memory over many sentences.

    python benchmarks/augmentation.py
    python benchmarks/augmentation.py --data-dir glue --model runs/masked_lm

The same queries to the same masked language model are answered by
`kdkit.augmentation.MaskedWords`, which predicts many sentences and positions
together; by the model called as it is, one position at a time; and by one
compiled call for each position, padded to the same few lengths. All must return
the same words. Without arguments the model is a BERT-base with random weights
and the sentences are random words, as long as SST-2's; with them, both are
real.

Then 200,000 sentences are augmented and written with a stand-in for the model,
and the memory of the process after the first tenth is compared with the end's.

The last line is a JSON object. The exit status is 1 if a goal is missed.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import keras_hub
import numpy as np
from measuring import median_seconds

import kdkit
from kdkit.augmentation import (
    Augmentation,
    Augmenter,
    MaskedWords,
    Query,
    write_augmented,
)
from kdkit.data import Examples, encode
from kdkit.tasks import get_task

EAGER_GOAL, COMPILED_GOAL = 20.0, 4.0
MEMORY_GOAL = 1.05  # memory at the end over memory after a tenth
MODEL = "bert_base_en_uncased"
NUM_WORDS = 15
# Word pieces of SST-2's training rows, without special ones: their quantiles
# at 5, 15 ... 95 %.
PIECES = (2, 3, 4, 6, 7, 9, 12, 15, 20, 29)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", metavar="DIR", help="GLUE's folder")
    parser.add_argument("--model", metavar="MODEL", help="a masked LM")
    parser.add_argument("--positions", type=int, default=2048)
    parser.add_argument("--positions-one-by-one", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=200_000)
    options = parser.parse_args()
    if bool(options.data_dir) != bool(options.model):
        parser.error("--data-dir and --model go together")

    keras.utils.set_random_seed(0)
    model, tokenizer, texts = real(options) if options.model else random()
    speed = measure_speed(model, tokenizer, texts, options)
    memory = measure_memory(options.sentences)
    print(
        json.dumps(
            {
                "benchmark": "augmentation",
                "model": options.model or MODEL,
                **speed,
                **memory,
                "goals": {
                    "over_eager": EAGER_GOAL,
                    "over_compiled": COMPILED_GOAL,
                    "memory_growth": MEMORY_GOAL,
                },
            }
        )
    )
    reached = (
        speed["over_eager"] >= EAGER_GOAL
        and speed["over_compiled"] >= COMPILED_GOAL
        and memory["memory_growth"] <= MEMORY_GOAL
    )
    return 0 if reached else 1


def real(options):
    """A trained model, its tokenizer, and pieces of SST-2's sentences."""
    loaded = kdkit.models.load_masked_lm(options.model)
    examples = get_task("sst2").load("train", options.data_dir)
    rows = np.random.default_rng(0).permutation(len(examples))
    encoded = encode(
        examples.take(rows[: options.positions]), loaded.tokenizer, 64
    )
    texts = [encoded.row(number)[1:-1] for number in range(len(encoded))]
    return loaded.model, loaded.tokenizer, [text for text in texts if len(text)]


def random():
    """A model with random weights, words, and sentences of SST-2's length."""
    words = [a + b + c for a in LETTERS for b in LETTERS for c in LETTERS]
    vocabulary = kdkit.models.student_config(MODEL).vocabulary_size
    pieces = [*SPECIAL, *words]
    pieces += [f"##{number}" for number in range(vocabulary - len(pieces))]
    tokenizer = keras_hub.tokenizers.BertTokenizer(pieces, lowercase=True)
    backbone = kdkit.models.student(MODEL)
    generator = np.random.default_rng(0)
    texts = [
        generator.integers(len(SPECIAL), len(SPECIAL) + len(words), length)
        for length in generator.choice(PIECES, 4000)
    ]
    return kdkit.models.language_model(backbone), tokenizer, texts


def measure_speed(model, tokenizer, texts, options):
    """Times the three ways on the same queries."""
    generator = np.random.default_rng(1)
    queries = [
        Query(text, int(generator.integers(len(text))))
        for text in texts[: options.positions]
    ]
    few = queries[: options.positions_one_by_one]
    together = MaskedWords(model, tokenizer, NUM_WORDS)
    # Rows of one step, at most as many as of the longest length.
    compiled = MaskedWords(model, tokenizer, NUM_WORDS, tokens_per_step=1)
    whole = np.array([piece.isalpha() for piece in tokenizer.get_vocabulary()])

    def eager():
        return np.array(
            [best_words(model, tokenizer, whole, query) for query in few]
        )

    def one_by_one():
        return np.concatenate([compiled([query]) for query in few])

    expected = together(queries)[: len(few)]
    for found in (eager(), one_by_one()):
        same = (np.sort(found) == np.sort(expected)).mean()
        # Words with nearly equal probabilities may change places.
        if same < 0.99:
            sys.exit(f"Only {same:.1%} of the words are the same.")
    medians = median_seconds(
        {
            "together": lambda: together(queries),
            "eager": eager,
            "compiled": one_by_one,
        },
        options.rounds,
    )
    counts = {"together": len(queries), "eager": len(few), "compiled": len(few)}
    rates = {name: counts[name] / medians[name] for name in medians}
    for name, rate in rates.items():
        print(f"{name:<10} {rate:8.1f} positions a second", flush=True)
    return {
        "positions_per_second": {
            name: round(rate, 1) for name, rate in rates.items()
        },
        "over_eager": round(rates["together"] / rates["eager"], 1),
        "over_compiled": round(rates["together"] / rates["compiled"], 1),
    }


def best_words(model, tokenizer, whole, query):
    """Answers one query with a plain call of the model."""
    row = [tokenizer.start_token_id, *query.token_ids, tokenizer.end_token_id]
    row[1 + query.position] = tokenizer.mask_token_id
    row = np.array([row], "int32")
    logits = model(
        {
            "token_ids": row,
            "segment_ids": np.zeros_like(row),
            "padding_mask": np.ones_like(row),
            "mask_positions": np.array([[1 + query.position]], "int32"),
        },
        training=False,
    )
    logits = np.where(whole, np.asarray(logits)[0, 0], -np.inf)
    return np.argsort(-logits)[:NUM_WORDS]


class StandIn:
    """Replaces a model: returns the first words of the vocabulary."""

    most_pieces = 510

    def __call__(self, queries):
        words = np.arange(len(SPECIAL), len(SPECIAL) + NUM_WORDS)
        return np.tile(words, (len(queries), 1))


def measure_memory(num_sentences):
    """Augments many sentences, and compares the memory over time."""
    words = [a + b + c for a in LETTERS for b in LETTERS for c in LETTERS]
    tokenizer = keras_hub.tokenizers.BertTokenizer(
        [*SPECIAL, *words], lowercase=True
    )
    generator = np.random.default_rng(0)
    texts = [
        " ".join(words[i] for i in generator.integers(0, len(words), length))
        for length in generator.choice(PIECES, num_sentences)
    ]
    augmenter = Augmenter(
        Augmentation(num_copies=1, num_candidates=NUM_WORDS),
        StandIn(),
        lambda unknown: {},
        tokenizer,
    )
    sizes = []

    def note(progress):
        sizes.append((progress.rows, resident_megabytes()))

    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        write_augmented(
            Examples((texts,)),
            augmenter,
            pathlib.Path(folder, "copies.tsv"),
            ("sentence",),
            {},
            announce=note,
        )
    seconds = time.perf_counter() - start
    early = next(size for rows, size in sizes if rows >= num_sentences / 10)
    late = sizes[-1][1]
    print(
        f"{num_sentences} sentences in {seconds:.0f} s: {early:.0f} MB after a "
        f"tenth, {late:.0f} MB at the end"
    )
    return {
        "sentences": num_sentences,
        "memory_mb": {"after_a_tenth": round(early), "at_the_end": round(late)},
        "memory_growth": round(late / early, 3),
    }


def resident_megabytes():
    """Returns the process's current memory."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    sys.exit(main())
