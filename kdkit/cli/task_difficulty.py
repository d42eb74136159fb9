"""The work of `kdkit difficulty`: three runs of pretraining, one table."""

import dataclasses
import json
import pathlib

from rich.console import Console
from rich.table import Table

from kdkit import models
from kdkit import training
from kdkit.cli.options import absolute
from kdkit.cli.options import located
from kdkit.data import Masker
from kdkit.data import masked_evaluation_batches
from kdkit.data import next_token_evaluation_batches
from kdkit.data import open_packed
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.recipes import pretraining
from kdkit.settings import override
from kdkit.training import CorpusSettings
from kdkit.training import MassSettings
from kdkit.training import ModelSettings
from kdkit.training import PretrainSettings
from kdkit.training import SentenceSettings
from kdkit.training import seq2seq_material
from kdkit.training.compiling import UPDATE
from kdkit.training.corpus_material import EVALUATION_BATCH_SIZE
from kdkit.training.making import CORPUS_LENGTH
from kdkit.training.making import check_positions
from kdkit.training.making import check_sizes
from kdkit.training.run_directory import RunDirectory
from kdkit.training.seen_tokens import masked_share
from kdkit.training.seen_tokens import next_token_share
from kdkit.training.seen_tokens import span_share


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of LightPAFF's table 8, and how a run gives it.

    Args:
        title: string. The model.
        metric: string. The accuracy, as its material names it.
        accuracy: float. The paper's.
        seen: float. The paper's share of input tokens.
    """

    title: str
    metric: str
    accuracy: float
    seen: float


EVENT = "tokens_seen"
SOURCE = "LightPAFF, https://arxiv.org/abs/2004.12817, table 8"
ROWS = {
    "bert": Row("BERT", "masked_accuracy", 0.73, 0.85),
    "mass": Row("MASS", "token_accuracy", 0.62, 0.75),
    "gpt2": Row("GPT-2", "next_token_accuracy", 0.42, 0.50),
}


def compare_difficulty(options) -> None:
    """Makes the three runs, and prints the table.

    Args:
        options: the parsed options of `kdkit difficulty`.

    Raises:
        UsageError: if a setting is wrong, before anything is run.
    """
    settings = difficulty_settings(options)
    _check(settings)
    for name, of_run in settings.items():
        path = pathlib.Path(options.run_dir, name)
        print(f"\n{ROWS[name].title}: {path}", flush=True)
        training.pretrain(of_run, path)
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
    """The settings of the runs, that which trains the vocabulary first.

    Args:
        options: the parsed options of `kdkit difficulty`.

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
            "Of several files other texts would be held out for MASS, which "
            "counts them file by file, than for BERT and GPT-2. Received: "
            f"{len(options.corpus)} files. Name --held-out, or pass one file."
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
    """Tells what would stop a later run before the first one begins."""
    with all_mistakes() as check:
        for of_run in settings.values():
            with check():
                of_run.corpus.check()
            with check():
                check_sizes(of_run.model)
            with check():
                check_positions(
                    of_run.corpus.sequence_length,
                    of_run.model.num_positions,
                    CORPUS_LENGTH,
                )


def _measured(name, settings, path):
    """What the table has of a finished run."""
    run, row = RunDirectory(path), ROWS[name]
    (finished,) = run.events("run_finished")
    (model,) = run.events("model")
    (best,) = finished["best"].values()
    if not run.events(EVENT):
        run.log(EVENT, share=_share_seen(name, settings, path))
    (seen,) = run.events(EVENT)
    return {
        "model": model["name"],
        "parameters": model["parameters"],
        "run": str(path),
        "accuracy": best["metrics"][row.metric],
        "seen": seen["share"],
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
        held_out = seq2seq_material.load_held_out(settings.corpus, tokenizer)
        return span_share(held_out.batches(), special)
    rows = open_packed(path / "corpus" / "held_out")
    if name == "gpt2":
        batches = next_token_evaluation_batches(rows, EVALUATION_BATCH_SIZE)
        return next_token_share(batches, special)
    masker = Masker(settings.corpus.masking, tokenizer)
    batches = masked_evaluation_batches(rows, masker, EVALUATION_BATCH_SIZE)
    return masked_share(batches, special)


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
