"""Tiny models of transformers with random weights, and their outputs."""

import json

import numpy as np

from kit.encoders import NAMES, tokenizer
from kit.references import reference

WIDTH = 16
LENGTH = 9
POSITIONS = 14
# Wide enough that activations differ visibly.
SPREAD = 0.4
SIZES = {
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "hidden_size": WIDTH,
    "intermediate_size": 24,
    "max_position_embeddings": POSITIONS,
    "initializer_range": SPREAD,
}
CLASSES = {**NAMES, "gpt2": "GPT2", "qwen3": "Qwen3"}
CHECKPOINTS = tuple(NAMES)[:5]  # encoders whose checkpoints kdkit reads
OWN_SIZES = {
    "distil_bert": {
        "n_layers": 2,
        "n_heads": 2,
        "dim": WIDTH,
        "hidden_dim": 24,
        "max_position_embeddings": POSITIONS,
        "initializer_range": SPREAD,
    },
    "albert": {**SIZES, "embedding_size": 12},
    "gpt2": {
        "n_layer": 2,
        "n_head": 2,
        "n_embd": WIDTH,
        "n_positions": POSITIONS,
        "initializer_range": SPREAD,
        "vocab_size": 40,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    "qwen3": {
        **SIZES,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 6,
        "tie_word_embeddings": True,
        "vocab_size": 40,
        "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
    },
}


def foreign_model(family, head="Model", **options):
    """A model of transformers, each weight random.

    Args:
        family: string. A key of `CLASSES`.
        head: string. The end of the class's name. Defaults to `"Model"`.
        **options: fields of its configuration.
    """
    transformers = reference("transformers")
    torch = reference("torch")
    sizes = OWN_SIZES.get(family, SIZES)
    if family in NAMES:
        sizes = {"vocab_size": tokenizer(family).vocabulary_size(), **sizes}
    config = getattr(transformers, f"{CLASSES[family]}Config")(
        **{**sizes, **options}
    )
    config._attn_implementation = "eager"  # which returns attention
    torch.manual_seed(0)
    model = getattr(transformers, CLASSES[family] + head)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(SPREAD * torch.randn(parameter.shape))
    return model


def write_tokenizer(path, family, tokens):
    """Writes the vocabulary as the family's oldest checkpoints have it."""
    if family in ("bert", "distil_bert"):
        (path / "vocab.txt").write_text("\n".join(tokens.get_vocabulary()))
        config = {"do_lower_case": True}
        (path / "tokenizer_config.json").write_text(json.dumps(config))
    elif family == "roberta":
        tokens.save_assets(str(path))
        (path / "vocabulary.json").rename(path / "vocab.json")
    else:
        name = "spiece" if family == "albert" else "sentencepiece.bpe"
        (path / f"{name}.model").write_bytes(tokens.proto)


def save_foreign(model, family, path):
    """Saves it as transformers does, with tokenizer files."""
    model.save_pretrained(path)
    if family not in NAMES:
        ids = {"<|endoftext|>": 0, "a": 1, "b": 2, "ab": 3, "<|im_end|>": 4}
        (path / "vocab.json").write_text(json.dumps(ids))
        (path / "merges.txt").write_text("#version: 0.2\na b\n")
    else:
        write_tokenizer(path, family, tokenizer(family))
    return path


def batch(model, family):
    """Rows of ids, of which the second is padded: for Keras and for torch."""
    torch = reference("torch")
    generator = np.random.default_rng(0)
    size = model.config.vocab_size
    ids = generator.integers(5, size - 1, (2, LENGTH)).astype("int32")
    mask = np.ones_like(ids)
    mask[1, LENGTH - 3 :] = 0
    pad_id = model.config.pad_token_id
    ids[mask == 0] = pad_id or 0
    segments = np.zeros_like(ids)
    received = {"input_ids": ids, "attention_mask": mask}
    num_segments = getattr(model.config, "type_vocab_size", 0)
    if family in ("bert", "albert") and num_segments > 1:
        segments[:, 3:6] = num_segments - 1
        received["token_type_ids"] = segments
    inputs = {
        "token_ids": ids,
        "padding_mask": mask,
        "segment_ids": segments,
    }
    received = {
        name: torch.tensor(array.astype("int64"))
        for name, array in received.items()
    }
    return inputs, received, mask.astype(bool)


def outputs(model, received):
    """What the model of transformers computes."""
    torch = reference("torch")
    with torch.no_grad():
        return model(
            **received, output_hidden_states=True, output_attentions=True
        )


def largest(ours, theirs, real=...):
    """The largest difference at real tokens, in units of numbers above 1.

    Rounding in float32 grows with the numbers, and differs between processors.
    """
    ours, theirs = np.asarray(ours)[real], theirs.numpy()[real]
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))
