"""Texts as inputs of exported files: the tokenizer in a graph, and examples."""

import dataclasses

import keras
import numpy as np

from kdkit import data
from kdkit.errors import unknown
from kdkit.export.metadata import OUTPUTS
from kdkit.export.strings import string_encoder
from kdkit.late import tf

LONG = 600  # words in a text that every model truncates
# Texts on which tokenizers of different programs differ.
DIFFICULT = (
    "",
    " ",
    "The film is good.",
    "THE FILM IS GOOD",
    "Café déjà vu, naïve Ångström, Élan",
    "e\u0301 cafe\u0301 \u0301",
    "Straße İSTANBUL ΣΑΣ ﬁn ½ Ⅷ",
    "我爱北京天安门。",
    "日本語とEnglish 한국어",
    "עברית العربية हिन्दी ไทย",
    "😀 👍🏽 👨‍👩‍👧 great!",
    "don't stop-it!!! (really?) $9.99 50% a.b@c.de",
    "«quoted» “text” – it’s… 3,14 €",
    "tab\tnew\nline\u00a0nbsp\u200bzero\u00adsoft",
    "[CLS] [SEP] [MASK] <s> </s> ##ing",
    "x" * 120,
)


def difficult_examples(num_texts: int) -> data.Examples:
    """Returns examples on which tokenizers of different programs differ."""
    long, longer = ("good " * LONG).strip(), ("bad " * (LONG + 9)).strip()
    texts = [*DIFFICULT, long]
    if num_texts == 1:
        return data.Examples((texts,))
    short = DIFFICULT[2]
    pairs = [
        *((text, short) for text in texts),
        *((short, text) for text in texts),
        (longer, long),
    ]
    return data.Examples(tuple(map(list, zip(*pairs, strict=True))))


@dataclasses.dataclass(frozen=True, eq=False)
class TextInputs:
    """The part of a SavedModel in front of the model: texts to token ids.

    Args:
        tokenizer: as in `kdkit.data.encode`.
        sequence_length: int. Longer texts are truncated to this number of
            tokens.
        num_texts: int. 1 for texts, 2 for pairs. Defaults to 1.
        outputs: string. The scores: `"logits"`, or probabilities by
            `"softmax"` or `"sigmoid"`. Defaults to `"logits"`.
    """

    tokenizer: object
    sequence_length: int
    num_texts: int = 1
    outputs: str = "logits"

    def __post_init__(self):
        if self.outputs not in OUTPUTS[:3]:
            raise unknown("output", self.outputs, OUTPUTS[:3])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the string inputs."""
        return ("strings",) if self.num_texts == 1 else ("first", "second")

    def signature(self) -> list:
        """Returns the specs of the string inputs, of shape `(batch_size,)`."""
        return [tf.TensorSpec((None,), "string", name) for name in self.names]

    def scores(self, model, input_names, padded_length=None):
        """Returns a function from columns of texts to scores, for a graph.

        Args:
            model: `keras.Model` from a dict of int32 tensors to logits.
            input_names: tuple of strings. The model's inputs.
            padded_length: int or `None`. The model's only length. Defaults to
                `None`: batches are padded to their longest text.
        """
        encode = string_encoder(
            self.tokenizer,
            self.sequence_length,
            self.num_texts,
            difficult_examples(self.num_texts),
        )
        shape = (None, padded_length)
        pad_token_id = self.tokenizer.pad_token_id

        def scores(*texts):
            ids, segments = encode(*texts)
            lengths = ids.row_lengths()
            inputs = {
                "token_ids": ids.to_tensor(pad_token_id, shape=shape),
                "segment_ids": segments.to_tensor(0, shape=shape),
                "padding_mask": tf.sequence_mask(
                    lengths, padded_length, "int32"
                ),
            }
            logits = model({name: inputs[name] for name in input_names})
            return {"scores": self.activate(logits)}

        if self.num_texts == 1:
            return lambda strings: scores(strings)
        return lambda first, second: scores(first, second)

    def activate(self, logits):
        """Converts logits to scores."""
        if self.outputs == OUTPUTS[0]:
            return logits
        return getattr(keras.ops, self.outputs)(logits)

    def encoded(self, examples) -> dict:
        """Returns examples as one batch of int32 arrays, padded.

        Args:
            examples: `kdkit.data.Examples`.
        """
        encoded = data.encode(examples, self.tokenizer, self.sequence_length)
        return encoded.inputs(np.arange(len(encoded)), self.sequence_length)
