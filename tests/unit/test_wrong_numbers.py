"""What would give a wrong number in silence is refused, in Python."""

import dataclasses
import json

import keras
import numpy as np
import pytest
from kit.encoders import tokenizer
from kit.helpers import bert, decoder
from kit.hugging_face import change_config, write_checkpoint

import kdkit
from kdkit import export, models, tasks
from kdkit.augmentation import MaskedWords
from kdkit.config.data import Corpus, Pairs, TaskData
from kdkit.config.model import Checkpoint
from kdkit.config.runs import TaskConfig
from kdkit.data.retrieval import read_candidates
from kdkit.data.texts import corpus_texts
from kdkit.recipes import RECIPES, Stage, TokenVectors
from kdkit.tasks import embedding_metrics

SST2 = tasks.get_task("sst2")
TAGS = tasks.Tagging(("O", "B-PER"))
BROKEN = np.array([[1.0, 0.0], [np.nan, 1.0]])


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def read_text(text):
    return lambda folder: [*corpus_texts([written(folder / "a.txt", text)])]


def list_in_quotes(folder):
    text = "query\tpositive\tnegatives\nq\tp\t['a', 'b']\n"
    return read_candidates((written(folder / "c.tsv", text),))


def other_padding(folder):
    write_checkpoint(folder, "roberta")
    change_config(folder, pad_token_id=0)
    return models.load_encoder(folder)


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


def metric_of_scores(folder):
    return tasks.from_table(
        "a.csv", text_column="a", label_column="b", metrics=["pearson"]
    )


def shorter_translations(folder):
    long = written(folder / "t.en", "a\nb\nc\n")
    short = written(folder / "t.de", "b\nc\n")
    return [*Pairs(files=(long, short), max_texts=2).pairs(False)]


def stages_on_texts(folder):
    stage = Stage("a", 1, 1e-3, data="texts", hard_label_weight=1.0)
    return TaskConfig(
        recipe="tinybert",
        data=TaskData(task="sst2", sequence_length=8),
        teacher=("t",),
        student=Checkpoint(checkpoint="s"),
        stages=(stage, *RECIPES["tinybert"].stages_for(SST2)),
    )


def sparse_labels(folder):
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=None
    )
    return kdkit.Objective(loss)


def data_in_two_places(folder):
    return kdkit.distill(
        "teacher",
        data={"train": {"text": ["a"], "label": [1]}, "dev": "dev.csv"},
        recipe="pkd",
        run_dir=folder / "run",
    )


def files_of_one_name(folder):
    files = ["a/x.tflite", "b/x.tflite"]
    return export.to_bundle(files, folder / "b", SST2, None, None)


def one_vector_for_all(folder):
    texts = ["a", "the plot"]
    return tasks.embed_texts(
        lambda batch: np.ones((1, 3)), texts, tokenizer("bert")
    )


def another_task(folder):
    task = tasks.get_task("similarity")
    return tasks.register_task(dataclasses.replace(task, name="sst2"))


CASES = {
    # Data.
    "table of commas": (
        read_text('id,label,text\n0,pos,"fine, nice"\n1,neg,"bad, long"\n'),
        "is a table",
    ),
    "table of tabs": (
        read_text("text\tlabel\n" + "good\t1\n" * 20 + "bad\t\n"), "is a table"
    ),
    "list in quotes": (list_in_quotes, "a list of"),
    "one label": (one_label, "1 different label"),
    "shorter translations": (shorter_translations, "numbers of lines"),
    "generated text": (
        lambda _: Corpus(files=(), held_out=("a.txt",)), "held_out needs files"
    ),
    "stages on texts": (stages_on_texts, "on the task or a corpus"),
    "data in two places": (data_in_two_places, "not in both"),
    # Tasks.
    "data of a generated task": (
        lambda _: tasks.get_task("sentiment").check_data(["dev"], "nowhere"),
        "is not read",
    ),
    "split": (
        lambda _: SST2.check_data(["train", "dev_mismatched"]),
        "'dev_mismatched'.*dev, ",
    ),
    "no data": (
        lambda _: tasks.get_task("conll").load("train"), "Pass --data-dir"
    ),
    "task": (lambda _: tasks.get_task("sst-2"), "Expected one of: sst2, "),
    "name of another task": (another_task, "is taken"),
    "metric of scores": (metric_of_scores, "Unknown metric 'pearson'"),
    # Metrics.
    "logits of other classes": (
        lambda _: SST2.compute_metrics([0, 1], np.zeros((2, 3))),
        r"shape \(2, 3\)",
    ),
    "logits of other rows": (
        lambda _: SST2.compute_metrics([0, 1], np.zeros((3, 2))), "2 labels"
    ),
    "logits of no rows": (
        lambda _: SST2.compute_metrics([], np.zeros((0, 2))), "0 labels"
    ),
    "logits of other words": (
        lambda _: TAGS.compute_metrics(
            (), [np.array([0, 1])], np.zeros((1, 2))
        ),
        "2 labels",
    ),
    "agreement of one row with many": (
        lambda _: tasks.agreement(np.zeros((1, 3)), np.zeros((2, 3))),
        "two arrays of the same shape",
    ),
    "fewer references": (
        lambda _: tasks.generation_metrics(["a", "b"], ["a"]),
        "2 hypotheses, 1 references",
    ),
    "cosines of one row with many": (
        lambda _: tasks.cosines(np.ones((1, 3)), np.ones((3, 3))),
        "two arrays of the same shape",
    ),
    "scores of pairs": (
        lambda _: tasks.pair_metrics(np.eye(3), np.eye(3), np.ones(2)),
        "2 scores of 3",
    ),
    "more targets": (
        lambda _: tasks.bitext_metrics(np.eye(2), np.eye(3)),
        "two arrays of the same shape",
    ),
    "parts of words": (
        lambda _: MaskedWords(None, tokenizer("roberta"), 4), "parts of words"
    ),
    "one vector for all": (one_vector_for_all, "one vector for each text"),
    # Models, losses and files.
    "one component": (lambda _: TokenVectors(dimensions=1), "dimensions"),
    "sif of 0": (lambda _: TokenVectors(sif=0), "sif"),
    "other padding": (other_padding, "positions count from"),
    "cross-encoder": (cross_encoder, "embeds none"),
    "decoder": (
        lambda _: models.make_embedder(decoder(1).backbone), "left to right"
    ),
    "sparse labels": (sparse_labels, "logits"),
    "argument": (
        lambda folder: export.export_model(
            bert(1), folder / "a.onnx", sequence_lenght=3
        ),
        "sequence_lenght",
    ),
    "format": (lambda _: export.register_exporter("onnx")(object), "already"),
    "files of a bundle": (files_of_one_name, "one name"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_nobody_would_notice_is_refused(name, tmp_path):
    call, words = CASES[name]
    with pytest.raises(ValueError, match=words):
        call(tmp_path)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: SST2.compute_metrics([0, 1], BROKEN), "1 of 2 examples"),
        (
            lambda: tasks.pair_metrics(BROKEN, BROKEN, [1, 2]),
            "embeddings of 1 of 2",
        ),
        (lambda: embedding_metrics.candidate_metrics(BROKEN), "scores of 1 of"),
    ],
)
def test_numbers_that_are_not_finite_are_not_measured(call, said):
    with pytest.raises(RuntimeError, match=said):
        call()
