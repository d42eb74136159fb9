"""Label smoothing of a run on pairs, recomputed from its weights."""

import dataclasses

import numpy as np
import pytest
from kit.helpers import log_softmax, read_events
from kit.parallel import flags, write_parallel

from kdkit import models
from kdkit.cli.main import main
from kdkit.runs.directory import read_config
from kdkit.settings import from_dict, override
from kdkit.training import PairSettings, PretrainSettings, pretrain
from kdkit.training.sources import SentenceSource
from kdkit.training.text_data import load_sentences

pytestmark = pytest.mark.large

SIZE = 290
SIZES = (
    "model.mass.encoder_num_layers=1", "model.mass.decoder_num_layers=1",
    "model.mass.hidden_dim=8", "model.mass.num_heads=2",
    "model.mass.intermediate_dim=12", "model.mass.max_sequence_length=32",
)  # fmt: skip
SETTINGS = (
    "corpus.sequence_length=32", "jit_compile=false", "stages.0.epochs=3",
    "stages.0.learning_rate=0.01", "stages.0.batch_tokens=256",
)  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parallel")
    write_parallel(folder)
    return folder


@pytest.fixture(scope="module")
def run(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "en_de"
    arguments = [
        *("pretrain", *flags(text, "--pairs", "train")),
        *(*flags(text, "--held-out", "dev"), "--languages", "en", "de"),
        *("--vocabulary-size", str(SIZE)),
        *("--student", "lightpaff_mass_6_4_layer", "--run-dir", str(path)),
        *(word for field in SIZES + SETTINGS for word in ("--set", field)),
    ]
    assert main(arguments) == 0
    return path


def test_labels_are_smoothed_in_training_alone(text, run, tmp_path):
    share = 0.3
    settings = override(
        from_dict(PretrainSettings, read_config(run)),
        [
            "stages.0.epochs=1",
            "stages.0.learning_rate=1e-12",
            "stages.0.batch_tokens=100000",  # as in measuring
            f"stages.0.label_smoothing={share}",
            "model.mass.dropout=0.0",
        ],
    )
    pretrain(settings, tmp_path / "run")
    loaded = models.load_language_model(tmp_path / "run")
    on_training = dataclasses.replace(
        settings.corpus, held_out=settings.corpus.files
    )
    (epoch,) = read_events(tmp_path / "run", "epoch")
    *found, tokens = losses(loaded, on_training).T
    of_label, of_any = np.average(found, axis=1, weights=tokens)
    assert epoch["logs"]["loss"] == pytest.approx(
        (1 - share) * of_label + share * of_any, rel=1e-5
    )
    (evaluation,) = read_events(tmp_path / "run", "evaluation")
    of_label, _, tokens = losses(loaded, settings.corpus).T
    assert evaluation["metrics"]["perplexity"] == pytest.approx(
        np.exp(np.average(of_label, weights=tokens)), rel=1e-5
    )


def losses(loaded, text: PairSettings):
    """Of each batch: means of −log p of its and of any tokens, and tokens."""
    found = []
    held_out = load_sentences(text, loaded.tokenizer, is_held_out=True)
    for x, y, weights in SentenceSource(None, held_out).held_out_batches:
        log_p = log_softmax(np.array(loaded.model(x), "float64"))
        of_label = np.take_along_axis(log_p, np.array(y)[..., None], -1)[..., 0]
        counts = np.array(weights) > 0
        means = (
            -values[counts].mean() for values in (of_label, log_p.mean(-1))
        )
        found.append((*means, counts.sum()))
    return np.array(found)
