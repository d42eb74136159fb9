"""Token ids and outputs of checkpoints, against transformers.

    python benchmarks/references.py
    python benchmarks/references.py --data-dir data --teacher MINILM

For each family, transformers saves a tokenizer and tiny models with random
weights. kdkit and keras-hub read them. The last line is a JSON object:

- `ids`: for each family and set of texts, the share of texts whose token ids
  differ from transformers': through `kdkit`, through `keras_hub` alone as it
  reads the checkpoint, and through `preset`, the tokenizer that kdkit saved and
  keras-hub loads without kdkit.
- `outputs`: for each family and option, the largest difference of hidden
  states, attention probabilities and logits, through `kdkit` and `keras_hub`;
  `"refused"` if it does not load.
- `precision`: for a masked-language model of four layers in two groups, the
  largest difference of kdkit's logits and of transformers' own in float32 from
  those that transformers computes in float64.
- `segments`: for a classifier of pairs, the largest difference of kdkit's
  logits from transformers' with `token_type_ids`, and without, as its ALBERT
  tokenizer leaves them out.

With `--data-dir` the texts are 2,000 of SST-2, MRPC, IMDB and Multi30k (de, fr)
each, and BERT and RoBERTa have their own vocabularies; without it, texts that
are hard to normalise. With `--teacher`, that checkpoint is compared too. The
exit status is 1 if kdkit has other ids, or an output off by 1e-5 or more. Needs
the extra `references`.
"""

import argparse
import io
import json
import pathlib
import sys
import tempfile

import keras_hub
import numpy as np
import sentencepiece
import tensorflow as tf

sys.path.insert(
    0, str(pathlib.Path(__file__).resolve().parent.parent / "tests")
)

try:
    import tokenizers
    import transformers
    from foreign import batch, foreign_model, largest, outputs, save_foreign
except ImportError as error:
    print(f'{error}: pip install -e ".[references,tests]"', file=sys.stderr)
    sys.exit(2)
from real_texts import DATA_SETS, hostile_texts, real_texts

from kdkit import models
from kdkit.data.encoding import traced_tokenizer
from kdkit.errors import UsageError
from kdkit.models.ruled_tokenizers import plain_tokenizer
from kdkit.taps import tapped

TOLERANCE = 1e-5
OPTIONS = [
    ("bert", {}),
    ("bert", {"hidden_act": "relu"}),
    ("bert", {"hidden_act": "silu", "layer_norm_eps": 0.1}),
    ("bert", {"type_vocab_size": 1}),
    ("bert", {"type_vocab_size": 3}),
    ("distil_bert", {}),
    ("distil_bert", {"activation": "relu"}),
    ("roberta", {}),
    ("roberta", {"layer_norm_eps": 1e-5, "type_vocab_size": 1}),
    ("xlm_roberta", {}),
    ("xlm_roberta", {"hidden_act": "gelu_new"}),
    ("albert", {}),
    ("albert", {"hidden_act": "gelu"}),
    ("albert", {"hidden_act": "relu", "layer_norm_eps": 0.1}),
]
NUM_CLASSES = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--teacher", metavar="DIR")
    options = parser.parse_args()
    texts = {"hard texts": hostile_texts()}
    if options.data_dir is not None:
        texts = {name: real_texts(options.data_dir, name) for name in DATA_SETS}
    result = {"ids": {}, "outputs": {}}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, write in tokenizers_of(texts, options.data_dir):
            result["ids"][name] = compare_ids(folder / name, write, texts)
            print(name, json.dumps(result["ids"][name]), flush=True)
        if options.teacher is not None:
            judge = transformers.AutoTokenizer.from_pretrained(options.teacher)
            ours = models.load_tokenizer(options.teacher)
            result["ids"]["teacher"] = {
                name: {"kdkit": share(ours, judge, some)}
                for name, some in texts.items()
            }
        for family, changes in OPTIONS:
            words = [f"{key}={value}" for key, value in changes.items()]
            name = " ".join([family, *words])
            place = folder / name.replace(" ", "_")
            result["outputs"][name] = compare_outputs(place, family, changes)
            print(name, json.dumps(result["outputs"][name]), flush=True)
        result["precision"] = compare_precision(folder / "precision")
        result["segments"] = compare_segments(folder / "segments")
    met = all(
        sides["kdkit"] == 0
        for sets in result["ids"].values()
        for sides in sets.values()
    ) and all(
        difference < TOLERANCE
        for sides in result["outputs"].values()
        for difference in sides["kdkit"].values()
    )
    met = met and result["precision"]["kdkit"] < TOLERANCE
    met = met and result["segments"]["with"] < TOLERANCE
    print(json.dumps({**result, "is_met": met}))
    return 0 if met else 1


def tokenizers_of(texts, data_dir):
    """Yields tokenizers' names, and functions that write their older files."""
    trained_on = [text for some in texts.values() for text in some]
    trained_on = [text for text in trained_on if text.strip()][:8000]
    trained_on += ["a film that is both funny and sad"] * 100

    def word_pieces(family, lowercase):
        def write(place):
            if lowercase and data_dir is not None:
                file = data_dir / "vocab" / "bert-base-uncased-vocab.txt"
                pieces = file.read_text("utf-8").split("\n")[:30522]
            else:
                trainer = tokenizers.BertWordPieceTokenizer(lowercase=lowercase)
                trainer.train_from_iterator(
                    trained_on, vocab_size=6000, show_progress=False
                )
                vocabulary = trainer.get_vocab()
                pieces = sorted(vocabulary, key=vocabulary.get)
            (place / "vocab.txt").write_text("\n".join(pieces), "utf-8")
            describe(place, family, do_lower_case=lowercase)

        return write

    def unigram(family, file, **settings):
        def write(place):
            model = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(t for t in trained_on if len(t) < 4000),
                model_writer=model,
                vocab_size=6000,
                hard_vocab_limit=False,
                character_coverage=0.98,
                minloglevel=3,
                **settings,
            )
            (place / file).write_bytes(model.getvalue())
            describe(place, family)

        return write

    def byte_pairs(place):
        if data_dir is None:
            made = tokenizers.ByteLevelBPETokenizer()
            made.train_from_iterator(
                trained_on, vocab_size=3000, show_progress=False
            )
            made.save_model(str(place))
            vocabulary = json.loads((place / "vocab.json").read_text("utf-8"))
        else:
            file = data_dir / "vocab" / "gpt2-encoder.json"
            vocabulary = json.loads(file.read_text("utf-8"))
            vocabulary.pop("<|endoftext|>")
            merges = (data_dir / "vocab" / "gpt2-vocab.bpe").read_bytes()
            (place / "merges.txt").write_bytes(merges)
        words = sorted(vocabulary, key=vocabulary.get)
        words = ["<s>", "<pad>", "</s>", "<unk>", *words, "<mask>"]
        ids = {word: number for number, word in enumerate(words)}
        (place / "vocab.json").write_text(json.dumps(ids), "utf-8")
        describe(place, "roberta")

    yield "bert uncased", word_pieces("bert", lowercase=True)
    yield "bert cased", word_pieces("bert", lowercase=False)
    yield "distilbert uncased", word_pieces("distilbert", lowercase=True)
    yield (
        "albert",
        unigram(
            "albert",
            "spiece.model",
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        ),
    )
    yield (
        "xlm-roberta",
        unigram(
            "xlm-roberta",
            "sentencepiece.bpe.model",
            unk_id=0,
            bos_id=1,
            eos_id=2,
        ),
    )
    yield "roberta", byte_pairs


# The same names in transformers and keras-hub.
CLASSES = {
    "bert": "BertTokenizer",
    "distilbert": "DistilBertTokenizer",
    "albert": "AlbertTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "roberta": "RobertaTokenizer",
}


def describe(place, family, **settings):
    """Writes the configs that are next to a vocabulary."""
    settings = {"tokenizer_class": CLASSES[family], **settings}
    (place / "tokenizer_config.json").write_text(json.dumps(settings))
    (place / "config.json").write_text(json.dumps({"model_type": family}))


def compare_ids(place, write, texts):
    """Shares of texts with other ids than transformers', for each set."""
    place.mkdir(parents=True)
    write(place)
    family = json.loads((place / "config.json").read_text())["model_type"]
    by_keras_hub = getattr(keras_hub.tokenizers, CLASSES[family]).from_preset(
        str(place)
    )
    judge = transformers.AutoTokenizer.from_pretrained(place)
    new = place / "transformers_5"
    judge.save_pretrained(new)
    (new / "config.json").write_text((place / "config.json").read_text())
    ours = models.load_tokenizer(new)
    sides = {
        "kdkit": ours,
        "keras_hub": by_keras_hub,
        "preset": plain_tokenizer(ours),
    }
    return {
        name: {side: share(one, judge, some) for side, one in sides.items()}
        for name, some in texts.items()
    }


def share(tokenizer, judge, texts):
    """The share of texts with other ids, in a graph, as kdkit encodes."""
    ids = traced_tokenizer(tokenizer)(tf.constant(texts)).to_list()
    expected = judge(texts, add_special_tokens=False)["input_ids"]
    different = sum(a != b for a, b in zip(ids, expected, strict=True))
    return different / len(texts)


def compare_outputs(place, family, changes):
    """Largest differences of hidden states, attention and logits."""
    model = foreign_model(
        family,
        "ForSequenceClassification",
        num_labels=NUM_CLASSES,
        **changes,
    )
    save_foreign(model, family, place)
    inputs, received, real = batch(model, family)
    expected = outputs(model, received)

    def differences(load):
        try:
            classifier = load()
        except (UsageError, KeyError, ValueError, TypeError, AttributeError):
            return "refused"
        backbone = models.backbone_of(classifier)
        read = tapped(backbone, ["hidden_states", "attention_probs"])(
            {name: inputs[name] for name in backbone.input}
        )
        logits = classifier({name: inputs[name] for name in classifier.input})
        return {
            "hidden_states": max(
                float(largest(ours, theirs, real))
                for ours, theirs in zip(
                    read["hidden_states"], expected.hidden_states, strict=True
                )
            ),
            "attention": max(
                float(
                    largest(
                        np.swapaxes(ours, 1, 2), theirs.transpose(1, 2), real
                    )
                )
                for ours, theirs in zip(
                    read["attention_probs"], expected.attentions, strict=True
                )
            ),
            "logits": float(largest(logits, expected.logits)),
        }

    def by_kdkit():
        return models.load_classifier(place, NUM_CLASSES).model

    def by_keras_hub():
        # With the head's weights that kdkit read: keras-hub reads encoders.
        read = by_kdkit()
        backbone = keras_hub.models.Backbone.from_preset(str(place))
        head = models.add_head(backbone, models.Head("sequence", NUM_CLASSES))
        for layer in ("logits", "pooled_dense"):
            names = [one.name for one in head.layers]
            if layer in names:
                head.get_layer(layer).set_weights(
                    read.get_layer(layer).get_weights()
                )
        return head

    return {
        "kdkit": differences(by_kdkit),
        "keras_hub": differences(by_keras_hub),
    }


def compare_precision(place):
    """Differences of logits in float32 from transformers' in float64."""
    sizes = {"num_hidden_layers": 4, "num_hidden_groups": 2}
    model = foreign_model("albert", "ForMaskedLM", **sizes)
    save_foreign(model, "albert", place)
    inputs, received, real = batch(model, "albert")
    ours = models.load_masked_lm(place).model
    positions = np.tile(np.arange(real.shape[1], dtype="int32"), (2, 1))
    inputs = {**inputs, "mask_positions": positions}
    logits = {
        "kdkit": ours({name: inputs[name] for name in ours.input}),
        "transformers": outputs(model, received).logits,
    }
    exact = outputs(model.double(), received).logits
    return {
        side: float(largest(values, exact, real))
        for side, values in logits.items()
    }


def compare_segments(place):
    """Differences of a pair's logits, with and without its segments."""
    model = foreign_model(
        "albert", "ForSequenceClassification", num_labels=NUM_CLASSES
    )
    save_foreign(model, "albert", place)
    inputs, received, _ = batch(model, "albert")
    ours = models.load_classifier(place, NUM_CLASSES).model
    logits = ours({name: inputs[name] for name in ours.input})
    expected = {"with": outputs(model, received).logits}
    received.pop("token_type_ids")
    expected["without"] = outputs(model, received).logits
    return {
        side: float(largest(logits, values))
        for side, values in expected.items()
    }


if __name__ == "__main__":
    sys.exit(main())
