"""What keras-hub's SentencePiece tokenizers do to texts without kdkit.

Their only normalizer is the `precompiled_charsmap` of the model, so one map for
all of a checkpoint's steps brings a preset as near as it can be.
"""

import functools
import io
import json
import pathlib
import tempfile

import sentencepiece

from kdkit.models.character_maps import character_images
from kdkit.models.character_maps import normalizer_of
from kdkit.models.charsmap import read_charsmap
from kdkit.models.normalizing import decoded_charsmap
from kdkit.models.normalizing import is_by_character
from kdkit.models.normalizing import joined
from kdkit.models.unigram import sentencepiece_model


def plain_charsmap(steps) -> bytes:
    """Returns one `precompiled_charsmap` for all steps of a normalizer.

    It maps characters, and the sequences of a map among the steps, as the steps
    do. Where sequences of several characters meet, results may differ.

    Args:
        steps: tuple of dicts, as in `TextRules`.
    """
    if [step["type"] for step in steps] == ["Precompiled"]:
        return decoded_charsmap(steps[0]["precompiled_charsmap"])
    return _compiled(json.dumps(list(steps))) if steps else b""


@functools.lru_cache(maxsize=8)
def _compiled(steps):
    steps = json.loads(steps)
    sequences, functions = set(), []
    for step in joined(steps):
        if step["type"] == "Replace":
            sequences |= {step["pattern"].get("String")} - {None}
        elif is_by_character(step):
            sequences |= set(map(chr, character_images(step)))
        elif step["type"] == "Precompiled":
            charsmap = decoded_charsmap(step["precompiled_charsmap"])
            sequences |= set(read_charsmap(charsmap))
        functions.append(normalizer_of(step).normalize_str)
    images = {}
    for sequence in sorted(sequences - {"\0"}):
        image = sequence
        for function in functions:
            image = function(image)
        if image != sequence:
            images[sequence] = image
    return _trained(images)


def _trained(images):
    """The map that SentencePiece's trainer makes of sequences' images."""

    def points(text):
        return " ".join(f"{ord(character):X}" for character in text)

    rules = [f"{points(one)}\t{points(images[one])}\n" for one in images]
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "rules.tsv"
        file.write_text("".join(rules), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a"]),
            model_writer=model,
            normalization_rule_tsv=str(file),
            model_type="char",
            vocab_size=8,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=3,
        )
    trained = sentencepiece_model.ModelProto.FromString(model.getvalue())
    return trained.normalizer_spec.precompiled_charsmap
