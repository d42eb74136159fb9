"""Tiny checkpoints in Hugging Face's layout."""

import json

import numpy as np
import safetensors.numpy

from kdkit.models.families import FAMILIES
from kit.encoders import tokenizer

WIDTH, INNER, POSITIONS, LAYERS = 8, 16, 12, 2
BERT_CONFIG = {
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": POSITIONS,
    "type_vocab_size": 2,
}
BERT_DENSE = {
    "attention.self.query": (WIDTH, WIDTH),
    "attention.self.key": (WIDTH, WIDTH),
    "attention.self.value": (WIDTH, WIDTH),
    "attention.output.dense": (WIDTH, WIDTH),
    "intermediate.dense": (INNER, WIDTH),
    "output.dense": (WIDTH, INNER),
}
BERT_NORMS = ("attention.output.LayerNorm", "output.LayerNorm")
# Family: prefix, configuration, dense layers and norms of a block, path of a
# block, whether there is a pooler and of what name.
LAYOUTS = {
    "bert": (
        "",
        BERT_CONFIG,
        BERT_DENSE,
        BERT_NORMS,
        "encoder.layer.{}",
        "pooler.dense",
    ),
    "roberta": (
        "roberta.",
        {**BERT_CONFIG, "max_position_embeddings": POSITIONS + 2},
        BERT_DENSE,
        BERT_NORMS,
        "encoder.layer.{}",
        None,
    ),
    "distil_bert": (
        "distilbert.",
        {
            "n_layers": LAYERS,
            "n_heads": 2,
            "dim": WIDTH,
            "hidden_dim": INNER,
            "dropout": 0.1,
            "max_position_embeddings": POSITIONS,
        },
        {
            "attention.q_lin": (WIDTH, WIDTH),
            "attention.k_lin": (WIDTH, WIDTH),
            "attention.v_lin": (WIDTH, WIDTH),
            "attention.out_lin": (WIDTH, WIDTH),
            "ffn.lin1": (INNER, WIDTH),
            "ffn.lin2": (WIDTH, INNER),
        },
        ("sa_layer_norm", "output_layer_norm"),
        "transformer.layer.{}",
        None,
    ),
    "albert": (
        "albert.",
        {
            **BERT_CONFIG,
            "embedding_size": WIDTH,
            "num_hidden_groups": 1,
            "inner_group_num": 1,
        },
        {
            "attention.query": (WIDTH, WIDTH),
            "attention.key": (WIDTH, WIDTH),
            "attention.value": (WIDTH, WIDTH),
            "attention.dense": (WIDTH, WIDTH),
            "ffn": (INNER, WIDTH),
            "ffn_output": (WIDTH, INNER),
        },
        ("attention.LayerNorm", "full_layer_layer_norm"),
        "encoder.albert_layer_groups.0.albert_layers.0",
        "pooler",
    ),
}
LAYOUTS["xlm_roberta"] = LAYOUTS["roberta"]


def write_checkpoint(path, family):
    """A checkpoint as Hugging Face lays it out; returns its token table."""
    prefix, config, dense, norms, block, pooler = LAYOUTS[family]
    tokens = tokenizer(family)
    size = tokens.vocabulary_size()
    rows = config["max_position_embeddings"]
    shapes = {
        "embeddings.word_embeddings.weight": (size, WIDTH),
        "embeddings.position_embeddings.weight": (rows, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    square = {pooler: (WIDTH, WIDTH)} if pooler else {}
    if family == "albert":
        square["encoder.embedding_hidden_mapping_in"] = (WIDTH, WIDTH)
    for layer in range(LAYERS):
        name = block.format(layer)
        square |= {f"{name}.{part}": shape for part, shape in dense.items()}
        square |= {f"{name}.{part}": (WIDTH,) for part in norms}
    for name, shape in square.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    generator = np.random.default_rng(0)
    tensors = {
        prefix + name: generator.normal(size=shape).astype("float32")
        for name, shape in shapes.items()
    }
    safetensors.numpy.save_file(
        tensors, path / "model.safetensors", metadata={"format": "pt"}
    )
    config = {
        **config,
        "model_type": FAMILIES[family].checkpoints.model_type,
        "architectures": ["Model"],
        "vocab_size": size,
    }
    (path / "config.json").write_text(json.dumps(config))
    write_tokenizer(path, family, tokens)
    return tensors[prefix + "embeddings.word_embeddings.weight"]


def write_tokenizer(path, family, tokens):
    if family in ("bert", "distil_bert"):
        (path / "vocab.txt").write_text("\n".join(tokens.get_vocabulary()))
        (path / "tokenizer_config.json").write_text(
            json.dumps({"do_lower_case": True})
        )
    elif family == "roberta":
        tokens.save_assets(str(path))
        (path / "vocabulary.json").rename(path / "vocab.json")
    else:
        names = {"albert": "spiece.model"}
        name = names.get(family, "sentencepiece.bpe.model")
        (path / name).write_bytes(tokens.proto)


def add_head(path, family, num_classes=3, **config):
    """Makes it a checkpoint with a classifier; returns the head's tensors."""
    file = path / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    if family == "bert":  # so named where there is a head
        tensors = {f"bert.{name}": value for name, value in tensors.items()}
    names = list(FAMILIES[family].checkpoints.classifier.values())
    generator = np.random.default_rng(1)
    head = {}
    for name in names:
        rows = num_classes if name == names[-1] else WIDTH
        head[f"{name}.weight"] = generator.normal(size=(rows, WIDTH))
        head[f"{name}.bias"] = generator.normal(size=rows)
    head = {name: value.astype("float32") for name, value in head.items()}
    safetensors.numpy.save_file(tensors | head, file, metadata={"format": "pt"})
    change_config(
        path, architectures=["ModelForSequenceClassification"], **config
    )
    return head


def change_config(path, **changes):
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
