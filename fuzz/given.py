"""Valid inputs from which the fuzzing of readers of foreign files begins."""

import base64
import hashlib
import io
import json
import zipfile

import pyarrow as pa
import pyarrow.parquet

from kdkit.models.hugging_face_unigrams import plain_charsmap
from kdkit.models.token_models import Piece
from kdkit.models.token_models import sentencepiece_model
from kdkit.teacher_cache.shards import KEY


def arrow_file():
    """Two rows of a cache in Arrow's format."""
    table = pa.table(
        {
            KEY: pa.array([b"0" * 16, b"1" * 16], pa.binary(16)),
            "logits": pa.array([b"1234", b"5678"], pa.large_binary()),
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def labeled_rows():
    """A table of texts with labels, in Arrow's memory."""
    return pa.table({"text": ["a film", "so dull"], "label": [1, 0]})


def parquet_file():
    """The table as a Parquet file."""
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(labeled_rows(), sink)
    return sink.getvalue().to_pybytes()


def arrow_stream():
    """The table as a saved dataset has it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, labeled_rows().schema) as writer:
        writer.write_table(labeled_rows())
    return sink.getvalue().to_pybytes()


def archive_of(members):
    """A ZIP file of some parts, by their names."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, part in members.items():
            file.writestr(name, part)
    return content.getvalue()


def events_of_a_run():
    """The log of a finished run."""
    where = {"arm": "student", "stage": "prediction_layer", "epoch": 1}
    events = [
        {"event": "model", "arm": "student", "parameters": 10, "name": "s"},
        {"event": "epoch", **where, "step": 1, "seconds": 1.0,
         "logs": {"loss": 0.5, "val_accuracy": 0.5, "learning_rate": 0.1}},
        {"event": "evaluation", **where, "split": "dev", "examples": 2,
         "metrics": {"accuracy": 0.5}, "agreement": {"same_top_class": 1.0}},
        {"event": "evaluation", "arm": "teacher", "stage": None, "epoch": None,
         "split": "dev", "metrics": {"accuracy": 0.75}},
        {"event": "stage_finished", "arm": "student", "seconds": 1.0,
         "stage": "prediction_layer"},
        {"event": "export", "arm": "student", "file": "exports/s.tflite",
         "format": "litert", "precision": "fp32", "size_bytes": 10,
         "max_abs_difference": 1e-7, "same_top_class": 1.0,
         "metrics": {"accuracy": 0.5}, "examples": 2, "sequence_length": 8},
        {"event": "latency", "file": "exports/s.tflite", "threads": 1,
         "batch_size": 1, "sequence_length": 8, "median_ms": 1.0,
         "p95_ms": 1.5, "runs": 10},
        {"event": "unlabeled", "rows": 2, "dropped": 1, "per_labeled": 1.0,
         "compared_with": ["dev"]},
        {"event": "augmented", "rows": 2, "rows_of_epoch": 4, "copies": 2,
         "left_out": 0},
        {"event": "measurement", "arm": "student", "corpus": ["t.txt"],
         "sequence_length": 8, "stride": 4, "metrics": {"perplexity": 9.0}},
        {"event": "run_finished", "seconds": 1.0, "best": {"student": {
            "stage": "prediction_layer", "epoch": 1, "split": "dev",
            "metrics": {"accuracy": 0.5}, "averaged_epochs": []}}},
    ]  # fmt: skip
    lines = [
        json.dumps({"time": 1e9 + number, **event})
        for number, event in enumerate(events)
    ]
    return "\n".join(lines).encode()


def index_of_a_cache():
    """The index of a cache."""
    sums = {"largest_error": 0.0, "squared_errors": 0.0, "squares": 1.0}
    shard = {
        "file": f"{'0' * 32}.arrow",
        "sequence_length": 8,
        "rows": 2,
        "entries": ["logits"],
        "bytes": 8,
        "sha256": "0" * 16,
        "errors": {"logits": sums},
    }
    return {
        "fingerprint": {"format": 2, "teacher": "a"},
        "entries": {"logits": {"shape": ["length", 2], **sums}},
        "shards": [shard],
    }


OBJECT = {
    "module": "keras_hub.src.models.bert.bert_tokenizer",
    "class_name": "BertTokenizer",
    "config": {"name": "t", "vocabulary": None, "hidden_dim": 8},
    "registered_name": "keras_hub>BertTokenizer",
}


ENTRY = {
    "precision": "fp32",
    "parameters": 10,
    "vocabulary_size": None,
    "kdkit_version": "0",
}


VECTOR = {
    "texts": ["a"],
    "inputs": {"token_ids": [2, 5, 3]},
    "outputs": {"a.tflite": {"scores": [0.5, 0.5], "labels": ["good"]}},
}
BUNDLED = {"a.tflite": b"TFL3", "tokenizer.json": b"{}"}
BUNDLE = {
    "kdkit_version": "0",
    "task": "mine",
    "kind": "classification",
    "labels": ["bad", "good"],
    "num_texts": 1,
    "models": [
        {
            "file": "a.tflite",
            "precision": "int8",
            "parameters": 10,
            "outputs": "logits",
            "output_shape": [1, 2],
            "output_meaning": "logits",
            "metrics": {"accuracy": 0.5},
        }
    ],
    "inputs": [
        {
            "name": "token_ids",
            "dtype": "int32",
            "shape": [1, 3],
            "meaning": "ids",
        }
    ],
    "tokenizer": {
        "kind": "word_pieces",
        "files": ["vocab.txt"],
        "lowercase": True,
        "strip_accents": True,
        "max_word_characters": 100,
        "special_tokens": {"start": {"token": "[CLS]", "id": 2}},
        "separators": 1,
        "truncation": "right",
        "length": 3,
    },
    "tolerance": 0.02,
    "files": [
        {
            "name": name,
            "size_bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        for name, content in (
            *BUNDLED.items(),
            ("test_vectors.jsonl", json.dumps(VECTOR).encode()),
        )
    ],
}


PASSAGE = {
    "article": "A text.",
    "questions": ["Which?"],
    "options": [["a", "b", "c", "d"]],
    "answers": ["A"],
    "id": "1",
}


PIECES = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n"


RUN = {
    "verb": "distill",
    "recipe": "pkd",
    "data": {"task": "sst2"},
    "teacher": {"seed": 1},
    "seed": 0,
    "provenance": {"command": "kdkit", "versions": {"keras": "3"}},
}
# As transformers 5 writes them: an added token, and a `tokenizer.json`.
TOKEN = {
    "content": "[MASK]",
    "lstrip": False,
    "normalized": False,
    "rstrip": False,
    "single_word": False,
    "special": True,
}
TOKENIZER_FILE = {
    "added_tokens": [{"id": 4, **TOKEN}],
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {
            piece: number
            for number, piece in enumerate(PIECES.decode().split())
        },
    },
}
WHOLE_CLASS = {"tokenizer_class": "TokenizersBackend"}
BYTE_PAIR_FILE = {
    "added_tokens": [{"id": 7, **TOKEN, "content": "ba", "special": False}],
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "use_regex": True,
    },
    "model": {
        "type": "BPE",
        "vocab": {
            piece: number
            for number, piece in enumerate(
                ["<s>", "<pad>", "</s>", "a", "b", "ab", "<mask>"]
            )
        },
        "merges": [["a", "b"]],
    },
}
SPECIAL_PIECES = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]


def unigram_file():
    """A `tokenizer.json` of ALBERT's kind."""
    replaced = {"type": "Replace", "pattern": {"String": "x"}, "content": "t"}
    charsmap = base64.b64encode(plain_charsmap((replaced,))).decode()
    mapped = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    words = {"type": "Metaspace", "replacement": "\u2581"}
    return {
        "added_tokens": [{"id": 4, **TOKEN}],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{"type": "NFKD"}, replaced, mapped],
        },
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, words],
        },
        "model": {
            "type": "Unigram",
            "unk_id": 1,
            "vocab": [
                *([piece, 0.0] for piece in SPECIAL_PIECES),
                ["\u2581a", -1.5],
                ["t", -2.0],
            ],
        },
    }


def sentence_piece_model():
    """A file of ALBERT's kind from older versions."""
    model = sentencepiece_model.ModelProto()
    model.trainer_spec.unk_id = 1
    model.normalizer_spec.add_dummy_prefix = True
    for piece in (*SPECIAL_PIECES, "\u2581a", "t"):
        kind = Piece.CONTROL if piece in SPECIAL_PIECES else Piece.NORMAL
        kind = Piece.UNKNOWN if piece == "<unk>" else kind
        model.pieces.add(piece=piece, score=-1.0, type=kind)
    return model.SerializeToString()
