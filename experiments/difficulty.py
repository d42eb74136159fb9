"""Pretrains BERT, MASS and GPT-2 of similar size, and compares their tasks.

All three read the same text with the same vocabulary, which is trained on it.
The table contains the share of the held-out text's tokens that each model
predicts correctly, and the share of tokens that it sees, next to LightPAFF's
table 8 (https://arxiv.org/abs/2004.12817). Start, end, languages and padding do
not count as tokens of the text. Positions that BERT and MASS mask count as
hidden, even if they contain a random token or the original one. The runs are in
DIR/mass, DIR/bert and DIR/gpt2, as from kdkit pretrain; the same command
resumes them. The last line is a JSON object.

example:
  python experiments/difficulty.py --corpus wiki.txt --vocabulary-size 8000 \\
      --num-layers 4 --hidden-dim 256 --num-heads 4 --run-dir runs/difficulty
"""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterable
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from kdkit import models
from kdkit.cli.groups import Seed
from kdkit.cli.groups import SettingOptions
from kdkit.cli.main import run_script
from kdkit.cli.options import absolute
from kdkit.cli.options import located
from kdkit.cli.parser import File
from kdkit.cli.parser import option
from kdkit.data import BatchStream
from kdkit.data import FullBatches
from kdkit.data import MaskedRows
from kdkit.data import Masker
from kdkit.data import PackedRows
from kdkit.data import open_packed
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.recipes import pretraining
from kdkit.runs import Pipeline
from kdkit.runs import events
from kdkit.runs.directory import RunDirectory
from kdkit.settings import override
from kdkit.training import CorpusSettings
from kdkit.training import MassSettings
from kdkit.training import ModelSettings
from kdkit.training import PretrainSettings
from kdkit.training import SentenceSettings
from kdkit.training import text_data
from kdkit.training.making import CORPUS_LENGTH
from kdkit.training.making import require_context_length
from kdkit.training.making import validate_sizes
from kdkit.training.model_settings import UPDATE
from kdkit.training.sources import SentenceSource


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of LightPAFF's table 8, and the run's metric for it.

    Args:
        title: string. The model.
        metric: string. The name of the accuracy in the run.
        accuracy: float. The paper's.
        seen: float. The paper's share of input tokens.
    """

    title: str
    metric: str
    accuracy: float
    seen: float


SOURCE = "LightPAFF, https://arxiv.org/abs/2004.12817, table 8"
ROWS = {
    "bert": Row("BERT", "masked_accuracy", 0.73, 0.85),
    "mass": Row("MASS", "token_accuracy", 0.62, 0.75),
    "gpt2": Row("GPT-2", "next_token_accuracy", 0.42, 0.50),
}


@dataclasses.dataclass
class Options(SettingOptions):
    """runs"""

    corpus: list[File] | None = option(
        "files with one text per line. Several need --held-out.", required=True
    )
    held_out: list[File] | None = option(
        "held-out text, a file for each of --corpus. Defaults to every "
        "100th text of --corpus, which is then not used for training."
    )
    vocabulary_size: int | None = option(
        "tokens of the vocabulary that is trained on the text", required=True
    )
    num_layers: int = option(
        "layers. Defaults to 12; MASS has half of them on each side.",
        default=12,
    )
    num_heads: int = option("heads of a layer. Defaults to 12.", default=12)
    hidden_dim: int = option(
        "width of the states, a quarter of that of the feed-forward layers. "
        "Defaults to 768.",
        default=768,
    )
    run_dir: str | None = option(
        "directory of the runs, or of runs to resume",
        required=True,
        metavar="DIR",
    )
    seed: Seed = option("Defaults to 0.", default=0)


def run(options) -> None:
    """Makes the three runs, and prints the table.

    Args:
        options: the parsed options.

    Raises:
        UsageError: if a setting is wrong, before anything is run.
    """
    settings = difficulty_settings(options)
    _check(settings)
    for name, of_run in settings.items():
        path = pathlib.Path(options.run_dir, name)
        print(f"\n{ROWS[name].title}: {path}", flush=True)
        Pipeline(of_run, path).run()
    rows = [
        _measured(name, settings[name], pathlib.Path(options.run_dir, name))
        for name in ROWS
    ]
    _print_table(rows)
    print(
        json.dumps(
            {
                "corpus": options.corpus,
                "held_out": options.held_out,
                "vocabulary_size": options.vocabulary_size,
                "seed": options.seed,
                "models": rows,
            }
        )
    )


def difficulty_settings(options) -> dict[str, PretrainSettings]:
    """Returns the settings of the runs; the first one trains the vocabulary.

    Args:
        options: the parsed options.

    Raises:
        UsageError: if a setting is wrong.
    """
    if options.num_layers % 2:
        raise UsageError(
            "MASS has half of the layers in its encoder and half in its "
            "decoder. Expected an even number. Received: --num-layers "
            f"{options.num_layers}."
        )
    if len(options.corpus) > 1 and options.held_out is None:
        raise UsageError(
            "With several files, MASS would hold out other texts than BERT and "
            "GPT-2, because it counts them per file. Received: "
            f"{len(options.corpus)} files. Pass --held-out, or only one file."
        )
    text = {
        "files": tuple(map(absolute, options.corpus)),
        "held_out": tuple(map(absolute, options.held_out or ())),
    }
    sizes = {
        "hidden_dim": options.hidden_dim,
        "num_heads": options.num_heads,
        "intermediate_dim": 4 * options.hidden_dim,
    }
    half = options.num_layers // 2
    shared = {"stages": pretraining.FROM_SCRATCH, "seed": options.seed}
    settings = {
        "mass": PretrainSettings(
            corpus=SentenceSettings(**text),
            model=ModelSettings(mass=MassSettings(half, half, **sizes)),
            vocabulary_size=options.vocabulary_size,
            jit_compile=UPDATE,
            **shared,
        )
    }
    for family in ("bert", "gpt2"):
        settings[family] = PretrainSettings(
            corpus=CorpusSettings(**text),
            model=ModelSettings(
                num_layers=options.num_layers, family=family, **sizes
            ),
            tokenizer=located(pathlib.Path(options.run_dir, "mass")),
            **shared,
        )
    return {
        name: override(of_run, options.set) for name, of_run in settings.items()
    }


def _check(settings):
    """Raises errors of later runs before the first run begins."""
    with all_mistakes() as check:
        for of_run in settings.values():
            with check():
                of_run.corpus.check()
            with check():
                validate_sizes(of_run.model)
            with check():
                require_context_length(
                    of_run.corpus.sequence_length,
                    of_run.model.num_positions,
                    CORPUS_LENGTH,
                )


def _measured(name, settings, path):
    """Returns a finished run's row of the table."""
    run, row = RunDirectory(path), ROWS[name]
    (finished,) = run.events(events.RunFinished)
    (model,) = run.events(events.Model)
    (best,) = finished.best.values()
    if not run.events(events.TokensSeen):
        share = _share_seen(name, settings, path)
        run.log(events.TokensSeen(share=share))
    (seen,) = run.events(events.TokensSeen)
    return {
        "model": model.name,
        "parameters": model.parameters,
        "run": str(path),
        "accuracy": best.metrics[row.metric],
        "seen": seen.share,
        "paper": {
            "model": row.title,
            "accuracy": row.accuracy,
            "seen": row.seen,
        },
    }


def _share_seen(name, settings, path):
    """The share of tokens seen, in the batches that the run measured on."""
    tokenizer = models.load_tokenizer(path)
    special = tokenizer.special_token_ids
    if name == "mass":
        held_out = text_data.load_sentences(
            settings.corpus, tokenizer, is_held_out=True
        )
        source = SentenceSource(None, held_out)
        return span_share(source.held_out_batches, special)
    rows = open_packed(path / "corpus" / "held_out")
    if name == "gpt2":
        batches = _in_order(PackedRows(rows, counts_once=True))
        return next_token_share(batches, special)
    masker = Masker(settings.corpus.masking, tokenizer)
    return masked_share(_in_order(MaskedRows(rows, masker)), special)


def _in_order(examples):
    return BatchStream(examples, FullBatches(16)).evaluation()


def _print_table(rows):
    table = Table(
        "model",
        "parameters",
        "accuracy",
        "paper",
        "tokens seen",
        "paper",
        title="How hard the tasks of pretraining are",
        caption=f"Paper: {SOURCE}.",
    )
    for row in rows:
        paper = row["paper"]
        table.add_row(
            row["model"],
            f"{row['parameters'] / 1e6:.2f} M",
            f"{row['accuracy']:.2f}",
            f"{paper['accuracy']:.2f}",
            f"{100 * row['seen']:.0f} %",
            f"{100 * paper['seen']:.0f} %",
        )
    Console().print(table)


def masked_share(batches: Iterable, special_token_ids: Sequence[int]) -> float:
    """Returns the share of tokens that a masked language model sees.

    That is the visible tokens of a row over all tokens of the row.

    Args:
        batches: iterable of `(x, y, sample_weight)` as from
            `kdkit.data.Masker`.
        special_token_ids: sequence of ints. Tokens that no text contains.

    Returns:
        Float, a mean over the predicted tokens.
    """
    shares = _Mean()
    for x, _, weights in _in_numpy(batches):
        hidden = _places(x["mask_positions"], weights, x["token_ids"].shape)
        seen = _is_text(x["token_ids"], special_token_ids) & ~hidden
        seen &= x["padding_mask"] > 0
        shares.add(_count(seen), _count(seen) + _count(hidden), weights)
    return shares.value


def span_share(batches: Iterable, special_token_ids: Sequence[int]) -> float:
    """Returns the share of tokens that MASS sees.

    That is the tokens that the encoder sees and those that the decoder has
    read, over the tokens of the sentence.

    Args:
        batches: iterable of `(x, y, sample_weight)` as `kdkit.data.SpanMasker`
            makes them.
        special_token_ids: as in `masked_share`.

    Returns:
        Float, a mean over the predicted tokens.
    """
    shares = _Mean()
    for x, _, weights in _in_numpy(batches):
        token_ids = x["encoder_token_ids"]
        # A token is predicted at the position before it.
        hidden = _places(x["decoder_positions"] + 1, weights, token_ids.shape)
        seen = _is_text(token_ids, special_token_ids) & ~hidden
        seen &= x["encoder_padding_mask"] > 0
        read = _is_text(x["decoder_token_ids"], special_token_ids)
        read &= x["decoder_padding_mask"] > 0
        shares.add(
            _count(seen) + read.cumsum(axis=1),
            _count(seen) + _count(hidden),
            weights,
        )
    return shares.value


def next_token_share(
    batches: Iterable, special_token_ids: Sequence[int]
) -> float:
    """Returns the share of tokens that a causal language model sees.

    That is the tokens of a row before the predicted one, over all tokens of the
    row, of which the last one is predicted but never read.

    Args:
        batches: iterable of `(x, y, sample_weight)` as
            `kdkit.data.PackedRows` makes them.
        special_token_ids: as in `masked_share`.

    Returns:
        Float, a mean over the predicted tokens.
    """
    shares = _Mean()
    for x, labels, weights in _in_numpy(batches):
        read = _is_text(x["token_ids"], special_token_ids)
        read &= x["padding_mask"] > 0
        weights = weights * _is_text(labels, special_token_ids)
        # A row that is not full has its last token among those that are read.
        last = weights[:, -1:] > 0
        shares.add(read.cumsum(axis=1), _count(read) + last, weights)
    return shares.value


class _Mean:
    """A weighted mean of quotients, added up batch by batch."""

    def __init__(self):
        self._sum = self._total = 0.0

    def add(self, seen, length, weights):
        # Rows without text have nothing to predict.
        shares = seen / np.maximum(length, 1)
        self._sum += float((weights * shares).sum())
        self._total += float(weights.sum())

    @property
    def value(self):
        return self._sum / self._total


def _in_numpy(batches):
    for x, labels, weights in batches:
        inputs = {name: np.asarray(value) for name, value in x.items()}
        yield inputs, np.asarray(labels), np.asarray(weights)


def _is_text(token_ids, special_token_ids):
    return ~np.isin(token_ids, special_token_ids)


def _places(positions, weights, shape):
    """Where rows have a position of weight above 0."""
    found = np.zeros(shape, bool)
    rows, columns = np.nonzero(weights)
    found[rows, positions[rows, columns]] = True
    return found


def _count(is_there):
    return is_there.sum(axis=1, keepdims=True)


def main(arguments=None) -> int:
    """Runs the script; returns its exit status."""
    return run_script(sys.modules[__name__], arguments, goes_on=True)


if __name__ == "__main__":
    sys.exit(main())
