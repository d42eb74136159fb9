"""kdkit.export.mediapipe and mediapipe_tokens: the ids of MediaPipe."""

import keras
import numpy as np
import pytest
from kit.exported import INPUTS, LABELS, encoded
from kit.references import reference

from kdkit import export, models
from kdkit.export import mediapipe
from kdkit.export.mediapipe_tokens import MediaPipeTokenizer, extra_lines

LENGTH = 32
FRENCH = "Élodie a bu un CAFÉ déjà glacé à la crèmerie"
HOSTILE = (
    "", "a\u00a0b", "x\u200by", "a\fb a\vb c\x85d", "[MASK] \u4e2d\u56fd",
    "a\u2013b \u201cq\u201d 5$ \u20ac5 don't", "\ufb01nd \u3000x", "a" * 101,
    "\u00e9" * 51, "x " * 50, "\U0001f600 smile", "\u00df \u1e9e \u0130 \u0131",
    "e\u0301crit", "a\0b c", "\ufffd q", "\ufeffhey", FRENCH,
)  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(data_dir):
    file = data_dir / "vocab" / "bert-base-uncased-vocab.txt"
    if not file.is_file():
        pytest.skip(f"no vocabulary in {data_dir}: set KDKIT_DATA")
    return models.load_tokenizer(file)


def test_ids_are_those_of_mediapipe(tokenizer, tmp_path):
    """Of a file that returns its token ids as scores."""
    text = reference("mediapipe.tasks.python.text")
    python = reference("mediapipe.tasks.python")
    inputs = {
        name: keras.Input((LENGTH,), dtype="int32", name=name)
        for name in INPUTS
    }
    pieces = tokenizer.get_vocabulary()
    table = keras.layers.Embedding(len(pieces), 1)
    ids = table(inputs["token_ids"])[..., 0]
    table.set_weights([np.arange(len(pieces), dtype="float32")[:, np.newaxis]])
    real, second = (
        keras.ops.cast(inputs[name], "float32") for name in INPUTS[:0:-1]
    )
    path = tmp_path / "ids.tflite"
    export.to_litert(
        keras.Model(inputs, ids * real + second),
        path,
        outputs="logits",
        mediapipe=True,
        tokenizer=tokenizer,
        labels=range(LENGTH),
        texts=[FRENCH],
    )
    lines = extra_lines(tokenizer, [FRENCH])
    theirs = MediaPipeTokenizer([*pieces, *lines])
    numbers = [*range(len(pieces)), *lines.values()]
    options = text.TextClassifierOptions(
        base_options=python.BaseOptions(model_asset_path=str(path))
    )
    with text.TextClassifier.create_from_options(options) as classifier:
        for string in (*HOSTILE, FRENCH.lower(), FRENCH.upper()):
            (head,) = classifier.classify(string).classifications
            found = {one.index: int(one.score) for one in head.categories}
            found = [found[place] for place in range(LENGTH)]
            ours = [numbers[number] for number in theirs(string, LENGTH)]
            assert found == ours + [0] * (LENGTH - len(ours)), string
            if string.lower() == FRENCH.lower():  # the model's own ids
                (own,) = encoded([string], tokenizer=tokenizer, length=LENGTH)[
                    "token_ids"
                ]
                assert found == own.tolist()
    # A letter that is in no text is the plain letter.
    assert lines["\u0151"] == pieces.index("o")
    assert lines["##\u0150"] == pieces.index("##o")


def test_other_outputs_for_another_spelling_are_refused(tmp_path):
    task = mediapipe.TextTask((), LABELS, 9, np.array([5]))
    opened = lambda batch: batch["token_ids"]  # noqa: E731
    opened.sequence_length = LENGTH
    with pytest.raises(RuntimeError, match="other spellings"):
        task.verify(opened, tmp_path)
