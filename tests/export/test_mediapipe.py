"""Files that MediaPipe's `TextClassifier` opens, on all of SST-2's dev."""

import importlib.util
import os
import pathlib
import zipfile

import keras
import keras_hub
import numpy as np
import pytest
from kit.helpers import python_blocks, sentiment_student

from kdkit import data, export, models
from kdkit.cli.main import main
from kdkit.errors import RunError, UsageError
from kdkit.export import mediapipe
from kdkit.export.inputs import INPUT_NAMES
from kdkit.export.mediapipe_tokens import MediaPipeTokenizer, extra_lines
from kdkit.tasks import get_task
from kdkit.training.task_data import make_forward, predict_logits

LENGTH = 32
MINILM = "~/.cache/kdkit/all-minilm-l6-v2"
LABELS = ("negative", "positive")
FRENCH = "Élodie a bu un CAFÉ déjà glacé à la crèmerie"
HOSTILE = (
    "", "a\u00a0b", "x\u200by", "a\fb a\vb c\x85d", "[MASK] \u4e2d\u56fd",
    "a\u2013b \u201cq\u201d 5$ \u20ac5 don't", "\ufb01nd \u3000x", "a" * 101,
    "\u00e9" * 51, "x " * 50, "\U0001f600 smile", "\u00df \u1e9e \u0130 \u0131",
    "e\u0301crit", "a\0b c", "\ufffd q", "\ufeffhey", FRENCH,
)  # fmt: skip


@pytest.fixture
def classify():
    """A function from a file to MediaPipe's answer for a text."""
    if importlib.util.find_spec("mediapipe") is None:
        pytest.skip("needs mediapipe: pip install '.[tests]'")
    from mediapipe.tasks.python import BaseOptions, text

    opened = []

    def make(path):
        options = text.TextClassifierOptions(
            base_options=BaseOptions(model_asset_path=str(path))
        )
        opened.append(text.TextClassifier.create_from_options(options))

        def answer(string):
            (head,) = opened[-1].classify(string).classifications
            return head.categories

        return answer

    yield make
    for classifier in opened:
        classifier.close()


@pytest.fixture(scope="module")
def tokenizer(data_dir):
    file = data_dir / "vocab" / "bert-base-uncased-vocab.txt"
    if not file.is_file():
        pytest.skip(f"no vocabulary in {data_dir}: set KDKIT_DATA")
    return models.load_tokenizer(file)


@pytest.fixture(scope="module")
def glue(data_dir):
    if not (data_dir / "glue" / "SST-2" / "dev.tsv").is_file():
        pytest.skip(f"no SST-2 in {data_dir}: set KDKIT_DATA to its folder")
    return data_dir / "glue"


def test_ids_are_those_of_mediapipe(classify, tokenizer, tmp_path):
    """Of a file that returns its token ids as scores."""
    inputs = {
        name: keras.Input((LENGTH,), dtype="int32", name=name)
        for name in INPUT_NAMES
    }
    scores = keras.ops.cast(
        inputs["token_ids"] * inputs["padding_mask"] + inputs["segment_ids"],
        "float32",
    )
    path = tmp_path / "ids.tflite"
    export.to_litert(
        keras.Model(inputs, scores),
        path,
        verification_data=[_rows([[101, 102]])],
    )
    lines = tuple(tokenizer.get_vocabulary())
    labels = tuple(map(str, range(LENGTH)))
    with zipfile.ZipFile(path) as archive:
        path.write_bytes(path.read_bytes()[: archive.start_dir])
    size = len(lines)
    mediapipe.TextTask(lines, labels, size, np.zeros(0, "int32")).add_to(path)
    answer, ours = classify(path), MediaPipeTokenizer(lines)
    for text in HOSTILE:
        found = {one.index: int(one.score) for one in answer(text)}
        ids = ours(text, LENGTH)
        expected = ids + [0] * (LENGTH - len(ids))
        assert [found[place] for place in range(LENGTH)] == expected, text


def _rows(ids):
    ids = np.array([row + [0] * (LENGTH - len(row)) for row in ids], "int32")
    return {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": (ids != 0).astype("int32"),
    }


def _ids(tokenizer, text):
    return np.asarray(tokenizer([text])[0]).tolist()


def test_words_of_the_texts_get_the_ids_of_the_tokenizer(tokenizer):
    lines = extra_lines(tokenizer, [FRENCH])
    pieces = tokenizer.get_vocabulary()
    ids = [*range(len(pieces)), *lines.values()]
    theirs = MediaPipeTokenizer([*pieces, *lines])
    for text in (FRENCH, FRENCH.lower(), FRENCH.upper()):
        found = [ids[number] for number in theirs(text, LENGTH)]
        assert found[1:-1] == _ids(tokenizer, text)
    # A letter that is in no text is the plain letter.
    assert lines["\u0151"] == pieces.index("o")
    assert lines["##\u0150"] == pieces.index("##o")


@pytest.fixture(scope="module")
def exported(tokenizer, glue, make_bert, tmp_path_factory, pytestconfig):
    """The preset's files as `kdkit export` writes them, and Keras' classes."""
    folder = tmp_path_factory.mktemp("mediapipe")
    sizes = {"vocabulary_size": tokenizer.vocabulary_size()}
    model = make_bert(sizes=sizes | {"max_sequence_length": 64})
    examples = get_task("sst2").load("dev", glue)
    rows = data.encode(examples, tokenizer, 64)
    logits = predict_logits(make_forward(model), rows)
    bias = model.weights[-1]
    bias.assign(bias - np.median(logits, axis=0))  # both classes occur
    logits -= np.median(logits, axis=0)
    models.save_preset(model, tokenizer, folder / "model", 64)
    command = ["export", str(folder / "model"), "--output", str(folder)]
    command += ["--task", "sst2", "--data-dir", str(glue)]
    many = pytestconfig.getoption("--run-large")
    precisions = ("fp32", "int8") if many else ("fp32",)
    with pytest.MonkeyPatch.context() as patch:
        printed = []
        patch.setattr("builtins.print", lambda *a, **_: printed.extend(a))
        assert main([*command, "--precision", *precisions]) == 0
    files = {name: next(folder.glob(f"*-{name}.tflite")) for name in precisions}
    return files, examples.texts[0], rows, logits, printed


def test_classes_on_all_of_dev_are_those_of_keras(classify, exported):
    files, texts, rows, logits, printed = exported
    (line,) = (line for line in printed if line.startswith("MediaPipe"))
    words = "870 of 872 dev texts get the same ids (2 differ: accents 2; "
    assert words in line  # words that are in no training text
    num_same = 870 + int(line.split("accents 2; ")[1][0])
    expected = {"fp32": logits}
    if "int8" in files:
        expected["int8"] = predict_logits(export.open_file(files["int8"]), rows)
    assert 0.2 < expected["fp32"].argmax(-1).mean() < 0.8
    for name, file in files.items():
        answer = classify(file)
        same = sum(
            answer(text)[0].category_name == LABELS[row]
            for text, row in zip(texts, expected[name].argmax(-1), strict=True)
        )
        assert same == num_same if name == "fp32" else same >= 870


def test_the_example_of_the_guide_runs(exported, capsys):
    if importlib.util.find_spec("mediapipe") is None:
        pytest.skip("needs mediapipe: pip install '.[tests]'")
    program = python_blocks("mediapipe")[0]
    place = "runs/tinybert/exports/student-int8.tflite"
    assert place in program
    exec(program.replace(place, str(exported[0]["fp32"])), {})
    lines = capsys.readouterr().out.split("\n")[:2]
    names, scores = zip(*(line.split() for line in lines), strict=True)
    assert sorted(names) == list(LABELS)
    assert sum(map(float, scores)) == pytest.approx(1, abs=0.002)


@pytest.mark.large
def test_minilm_has_the_classes_of_keras(classify, glue, tmp_path):
    place = pathlib.Path(os.environ.get("MINILM", MINILM)).expanduser()
    if not place.is_dir():
        pytest.skip(f"no all-MiniLM-L6-v2 in {place}: set MINILM")
    task = get_task("sst2")
    loaded = models.load_classifier(place, task.head)
    examples = task.load("dev", glue)
    rows = data.encode(examples, loaded.tokenizer, 64)
    logits = predict_logits(make_forward(loaded.model), rows)
    bias = loaded.model.weights[-1]
    bias.assign(bias - np.median(logits, axis=0))  # both classes occur
    logits -= np.median(logits, axis=0)
    path = tmp_path / "minilm.tflite"
    export.to_litert(
        loaded.model,
        path,
        sequence_length=64,
        mediapipe=True,
        tokenizer=loaded.tokenizer,
        labels=LABELS,
        texts=examples.texts[0],
    )
    answer = classify(path)
    found = [answer(text)[0].category_name for text in examples.texts[0]]
    assert found == [LABELS[row] for row in logits.argmax(-1)]


def test_a_file_still_is_one_for_plain_litert(exported):
    files, _, rows, logits, _ = exported
    file = export.open_file(files["fp32"])
    assert file.input_names == INPUT_NAMES
    assert file.outputs == file.metadata.outputs == "softmax"
    batch, _ = rows.batch(np.arange(4), 64, seed=0)
    found, expected = file(batch), logits[:4]
    powers = np.exp(expected)
    np.testing.assert_allclose(
        found, powers / powers.sum(-1, keepdims=True), atol=1e-5
    )
    found = file.logits(batch)
    np.testing.assert_allclose(
        found[:, 0] - found[:, 1], expected[:, 0] - expected[:, 1], atol=1e-4
    )
    with zipfile.ZipFile(files["fp32"]) as archive:
        assert archive.namelist() == ["vocab.txt", "labels.txt", "kdkit.json"]
        assert archive.read("labels.txt").decode().split() == list(LABELS)


@pytest.fixture(scope="module")
def tiny():
    return sentiment_student()


def test_python_takes_tokenizer_labels_and_texts(classify, tiny, tmp_path):
    model, tokenizer = tiny
    path = tmp_path / "file.tflite"
    word = tokenizer.get_vocabulary()[-1]
    report = export.to_litert(
        model,
        path,
        sequence_length=LENGTH,
        mediapipe=True,
        tokenizer=tokenizer,
        labels=LABELS,
    )
    assert report.outputs == "softmax"
    ids = [tokenizer.start_token_id, *_ids(tokenizer, word)]
    ids.append(tokenizer.end_token_id)
    expected = export.open_file(path)(_rows([ids]))[0]
    answers = classify(path)(word.upper())
    assert {one.category_name: one.score for one in answers} == pytest.approx(
        dict(zip(LABELS, expected, strict=True)), abs=1e-6
    )


def _cased(tokenizer):
    pieces = tokenizer.get_vocabulary()
    return keras_hub.tokenizers.BertTokenizer(pieces, lowercase=False)


def _longer(tokenizer):
    return models.word_piece_tokenizer(
        [*tokenizer.get_vocabulary(), "another"], True
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": ["one", "one"]}, "2 different labels"),
        ({"labels": ["a\nb", "c"]}, "of one line"),
        ({"tokenizer": _cased}, "the vocabulary is cased"),
        ({"tokenizer": _longer}, "the model only"),
    ],
    ids=lambda value: value if isinstance(value, str) else [*value][0],
)
def test_what_mediapipe_cannot_run_is_an_error(
    changes, message, tiny, tmp_path
):
    model, tokenizer = tiny
    arguments = {
        "sequence_length": LENGTH,
        "mediapipe": True,
        "tokenizer": tokenizer,
        "labels": LABELS,
        **changes,
    }
    if callable(changes.get("tokenizer")):
        arguments["tokenizer"] = changes["tokenizer"](tokenizer)
    with pytest.raises(UsageError, match=message):
        export.to_litert(model, tmp_path / "file.tflite", **arguments)
    assert os.listdir(tmp_path) == []


def test_sigmoid_of_several_labels_gives_the_logits(tiny, tmp_path):
    model, _ = tiny
    path = tmp_path / "file.tflite"
    export.to_litert(model, path, sequence_length=LENGTH, outputs="sigmoid")
    file, batch = export.open_file(path), _rows([[2, 5, 6, 3]])
    logits = np.asarray(model(batch))
    np.testing.assert_allclose(file(batch), 1 / (1 + np.exp(-logits)), 1e-5)
    np.testing.assert_allclose(file.logits(batch), logits, atol=1e-4)


def test_other_outputs_for_another_spelling_are_refused(tmp_path):
    task = mediapipe.TextTask((), LABELS, 9, np.array([5]))
    opened = lambda batch: batch["token_ids"]  # noqa: E731
    opened.sequence_length = LENGTH
    with pytest.raises(RunError, match="other spellings"):
        task.verify(opened, tmp_path)
