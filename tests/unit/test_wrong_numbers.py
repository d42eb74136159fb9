"""What would give a wrong number in silence, in Python and in verbs."""

import argparse
import json

import keras
import numpy as np
import pytest
from kit.helpers import bert, decoder
from kit.hugging_face import change_config, write_checkpoint

import kdkit
from kdkit import data, export, models, tasks
from kdkit.cli import generate
from kdkit.cli.main import main
from kdkit.data.candidates import read_candidates
from kdkit.errors import UsageError
from kdkit.export.bundle_writing import _common_length
from kdkit.tasks.embedding_metrics import pair_metrics
from kdkit.training import CorpusSettings, PairSettings


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def csv_named_txt(folder):
    text = 'id,label,text\n0,pos,"fine, nice"\n1,neg,"bad, long"\n'
    return [*data.Corpus((written(folder / "a.txt", text),)).texts()]


def tabs_but_for_one_line(folder):
    text = "text\tlabel\n" + "good\t1\n" * 20 + "bad\t\n"
    return [*data.Corpus((written(folder / "a.txt", text),)).texts()]


def list_in_quotes(folder):
    text = "query\tpositive\tnegatives\nq\tp\t['a', 'b']\n"
    return read_candidates((written(folder / "c.tsv", text),))


def other_padding(folder):
    write_checkpoint(folder, "roberta")
    change_config(folder, pad_token_id=0)
    return models.load_encoder(folder)


def scores_of_pairs(folder):
    unit = np.eye(3)
    return pair_metrics(unit, unit, np.array([3.0, 3.0]))


def cross_encoder(folder):
    file = folder / "config_sentence_transformers.json"
    file.write_text(json.dumps({"model_type": "CrossEncoder"}))
    return models.load_embedder(folder, pooling="mean")


def one_label(folder):
    file = written(folder / "t.csv", "text,label\na,x\nb,x\n")
    table = tasks.from_table(
        file, text_column="text", label_column="label", labels=["x"]
    )
    return table.load("train")


def shorter_translations(folder):
    long = written(folder / "t.en", "a\nb\nc\n")
    short = written(folder / "t.de", "b\nc\n")
    return [*PairSettings(files=(long, short), max_texts=2).pairs(False)]


def upside_down(folder):
    names = (*generate.ARGUMENTS, "sampler")
    options = argparse.Namespace(**dict.fromkeys(names))
    options.sampler, options.temperature = "random", -1.0
    return generate._sampler(options)


def sparse_labels(folder):
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=None
    )
    return kdkit.Objective(loss)


CASES = {
    "table of commas": (csv_named_txt, "is a table"),
    "table of tabs": (tabs_but_for_one_line, "is a table"),
    "list in quotes": (list_in_quotes, "expected a list"),
    "other padding": (other_padding, "positions count from"),
    "scores of pairs": (scores_of_pairs, "2 scores of 3"),
    "cross-encoder": (cross_encoder, "embeds none"),
    "decoder": (
        lambda _: models.make_embedder(decoder(1).backbone),
        "left to right",
    ),
    "data of a generated task": (
        lambda _: tasks.get_task("sentiment").check_data(["dev"], "nowhere"),
        "is not read",
    ),
    "one label": (one_label, "two labels"),
    "shorter translations": (shorter_translations, "numbers of lines"),
    "generated text": (
        lambda _: CorpusSettings(held_out=("a.txt",)),
        "held_out needs files",
    ),
    "temperature": (upside_down, "Not a range"),
    "sparse labels": (sparse_labels, "logits"),
    "argument": (
        lambda folder: export.export_model(
            bert(1), folder / "a.onnx", sequence_lenght=3
        ),
        "sequence_lenght",
    ),
    "data in two places": (
        lambda folder: kdkit.distill(
            "teacher",
            data={"train": {"text": ["a"], "label": [1]}, "dev": "dev.csv"},
            recipe="pkd",
            run_dir=folder / "run",
        ),
        "not in both",
    ),
    "format": (
        lambda _: export.register_exporter("onnx")(object),
        "already",
    ),
    "files of a bundle": (
        lambda _: _common_length(["a/x.tflite", "b/x.tflite"]),
        "one name",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_nobody_would_notice_is_refused(name, tmp_path):
    call, words = CASES[name]
    with pytest.raises(UsageError, match=words):
        call(tmp_path)


SWEEP = "sweep vanilla_kd --smoke --run-dir RUN --over temperature=1,2 "
STEPS = "distill lightpaff --model gpt2 --run-dir RUN --task-text a.txt "


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (SWEEP + "temperature=3", "twice"),
        (SWEEP + "seed=1,2 --curves a.svg", "one setting"),
        (
            STEPS + "--pretrained P --general G --corpus b.txt",
            "--corpus is not read",
        ),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    line, words, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    assert words in capsys.readouterr().err
