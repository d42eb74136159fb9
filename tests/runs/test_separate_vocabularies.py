"""Runs on pairs with a vocabulary for each side, from text to file."""

import dataclasses
import json

import numpy as np
import pytest
from helpers import (
    ENGLISH,
    GERMAN,
    log_softmax,
    read_events,
    stopped_after_epoch,
)

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


def sets(*fields):
    return [word for field in fields for word in ("--set", field)]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parallel")
    for language, lines in (("en", ENGLISH), ("de", GERMAN)):
        (folder / f"train.{language}").write_text("\n".join(4 * lines))
        (folder / f"dev.{language}").write_text("\n".join(lines))
    return folder


def pairs(text, option, part):
    return [option, str(text / f"{part}.en"), str(text / f"{part}.de")]


@pytest.fixture(scope="module")
def run(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "en_de"
    arguments = [
        *("pretrain", *pairs(text, "--pairs", "train")),
        *(*pairs(text, "--held-out", "dev"), "--languages", "en", "de"),
        *("--vocabulary-size", str(SIZE), "--separate-vocabularies"),
        *("--student", "lightpaff_mass_6_4_layer", "--run-dir", str(path)),
        *sets(*SIZES, *SETTINGS),
    ]
    assert main(arguments) == 0
    return path


def test_each_vocabulary_is_of_its_sides_text(run):
    loaded = models.load_language_model(run)
    for tokenizer, lines, language in (
        (loaded.tokenizer.encoder, ENGLISH, "en"),
        (loaded.tokenizer.decoder, GERMAN, "de"),
    ):
        expected = models.train_sentence_pieces(4 * lines, SIZE, [language])
        assert tokenizer.get_vocabulary() == expected.get_vocabulary()
    assert loaded.languages == ("en", "de")
    backbone = loaded.model.backbone
    assert backbone.decoder_vocabulary_size == SIZE
    first, *_, last = read_events(run, "epoch")
    assert last["logs"]["loss"] < first["logs"]["loss"]
    # For files outside of the preset.
    models.check_same_ids(loaded.tokenizer, models.load_tokenizer(run))


@pytest.mark.large
def test_what_is_written_is_the_same_from_the_file(text, run, capsys):
    assert main(["export", str(run), "--precision", "fp32"]) == 0
    (event,) = read_events(run, "export")
    assert event["max_abs_difference"] < 1e-4
    file = run / "exports" / "encoder_decoder-fp32.tflite"
    measured, written = [], []
    for place in map(str, (run, file)):
        capsys.readouterr()
        words = ["--num-beams", "2"]
        assert main(["generate", place, "--prompt", "a dog"]) == 0
        written.append(capsys.readouterr().out)
        words += pairs(text, "--pairs", "dev")
        assert main(["evaluate", place, *words]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        measured.append(json.loads(last)["metrics"])
    assert measured[1].items() <= measured[0].items()
    noted = read_events(run, "measurement")
    assert [one.get("file") for one in noted] == [None, file.name]
    *_, evaluation = read_events(run, "evaluation")
    assert measured[0]["perplexity"] == pytest.approx(
        evaluation["metrics"]["perplexity"]
    )
    assert written[0] == written[1]
    words = ["--runs", "1", "--warmup", "0"]
    assert main(["benchmark", str(file), *words]) == 0


@pytest.mark.large
def test_a_students_vocabularies_are_its_teachers(text, run, tmp_path):
    arguments = [
        *("sweep", "lightpaff", "--teacher", str(run)),
        *("--student", "lightpaff_mass_6_4_layer", "--languages", "en", "de"),
        *(*pairs(text, "--pairs", "train"), *pairs(text, "--held-out", "dev")),
        *("--over", "soft_label_weight=0.5", "--run-dir", str(tmp_path)),
        *sets(*SIZES, *SETTINGS, "stages.0.epochs=1"),
    ]
    assert main(arguments) == 0
    (trial,) = (tmp_path / "trials").iterdir()
    student = models.load_language_model(trial).tokenizer
    models.check_same_ids(models.load_language_model(run).tokenizer, student)


@pytest.mark.large
def test_a_stopped_run_goes_on_to_the_same_weights(run, tmp_path):
    settings = from_dict(PretrainSettings, read_config(run))
    assert settings.model.mass.dropout > 0
    with stopped_after_epoch(2):
        pretrain(settings, tmp_path / "run")
    pretrain(settings, tmp_path / "run")
    for kind, field in (("epoch", "logs"), ("evaluation", "metrics")):
        whole, stopped = (
            [event[field] for event in read_events(place, kind)]
            for place in (run, tmp_path / "run")
        )
        for ours, theirs in zip(whole, stopped, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-6)
    for ours, theirs in zip(
        models.load_language_model(run).model.get_weights(),
        models.load_language_model(tmp_path / "run").model.get_weights(),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


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


NEW = ("--student", "lightpaff_mass_6_4_layer", "--run-dir", "NEW")
TRAIN = ("--vocabulary-size", "290", "--separate-vocabularies")
STEPS = (
    "distill", "lightpaff", "--model", "mass", "--pairs", "EN", "DE",
    "--languages", "en", "de", "--run-dir", "NEW",
)  # fmt: skip
SPAN = "a hidden span's words are in the source"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain", "--corpus", "EN", *TRAIN, *NEW], "Use --pairs"),
        (
            ["pretrain", "--pairs", "EN", "DE", TRAIN[-1], *NEW],
            "Expected --vocabulary-size N",
        ),
        (
            ["pretrain", "--corpus", "EN", "--model", "RUN", *NEW[2:]],
            SPAN,
        ),
        (
            [*STEPS, "--pretrained", "RUN", "--corpus", "EN", "DE"],
            SPAN,
        ),
        (["evaluate", "RUN", "--corpus", "EN", "--languages", "en"], SPAN),
        (
            [
                *("pretrain", "--corpus", "EN", "--tokenizer", "RUN"),
                *("--student", "lightpaff_gpt2_4_layer_en", *NEW[2:]),
            ],
            "GPT-2 cannot use the tokens of a TokenizerPair",
        ),
        (
            [
                *("pretrain", "--pairs", "DE", "EN", "--model", "RUN"),
                *("--languages", "de", "en", *NEW[2:]),
            ],
            "no token for the language 'de'",
        ),
    ],
)
def test_mistakes_are_told_before_work_starts(
    arguments, message, text, run, tmp_path, capsys
):
    new = tmp_path / "new"
    places = {
        "EN": str(text / "train.en"),
        "DE": str(text / "train.de"),
        "RUN": str(run),
        "NEW": str(new),
    }
    words = [places.get(word, word) for word in arguments]
    if words[0] != "evaluate":
        words += sets("corpus.sequence_length=32")
    assert main(words) == 2
    told = capsys.readouterr()
    assert message in " ".join(told.err.split())
    assert "Step 1" not in told.out
    assert not list(new.glob("**/config.json"))
