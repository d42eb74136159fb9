"""Readers of the files of runs and models, as functions of bytes in a folder.

As in readers.py, whose `READERS` have them too.
"""

import contextlib
import functools
import hashlib
import io
import json
import pathlib
import tempfile

import keras
import keras_hub
import numpy as np
import safetensors.numpy

from kdkit.augmentation.files import _begun
from kdkit.augmentation.files import require_fingerprint
from kdkit.backends import tf
from kdkit.cli.choosing import saved_size
from kdkit.cli.distill import Options as DistillOptions
from kdkit.cli.generate import _read
from kdkit.cli.parser import Parser
from kdkit.cli.sweep import split_values
from kdkit.cli.texts import BegunTexts
from kdkit.data.augmented import _is_stored
from kdkit.data.augmented import store_augmented
from kdkit.data.candidates import read_candidates
from kdkit.data.examples import Examples
from kdkit.errors import UsageError
from kdkit.io.files import digest
from kdkit.io.files import with_own_digest
from kdkit.models import student
from kdkit.models.backbones import hugging_face_config
from kdkit.models.backbones import load_backbone
from kdkit.models.families import FAMILIES
from kdkit.models.hugging_face_weights import read_head
from kdkit.models.hugging_face_weights import tensor_name
from kdkit.models.language_models import checkpoint_language_model
from kdkit.models.language_models import has_masked_lm_head
from kdkit.models.loading import holds_plain_encoder
from kdkit.models.loading import load_tokenizer
from kdkit.models.loading import require_convertible
from kdkit.models.model_directories import require_model_directory
from kdkit.models.model_directories import require_weights
from kdkit.models.places import task_class
from kdkit.models.recovery import require_intact_files
from kdkit.models.recovery import way_to_restore
from kdkit.models.static import make_static_embedder
from kdkit.models.static_files import load_static_module
from kdkit.models.static_files import save_static_module
from kdkit.models.tokenizers import load_saved_tokenizer
from kdkit.models.tokenizers import save_tokenizer
from kdkit.models.trust import require_safe_directory
from kdkit.models.variants import load_extras
from kdkit.models.variants import saved_settings
from kdkit.models.variants import with_settings
from kdkit.reporting.results import replace_results
from kdkit.runs.augmenting import _stop_words
from kdkit.runs.given import CONTENT
from kdkit.runs.given import SavedInputs
from kdkit.runs.predictions import PREDICTIONS_FILE
from kdkit.runs.predictions import Predictions
from kdkit.runs.predictions import read_predictions
from kdkit.runs.reduced_teacher import read_arrays
from kdkit.settings import parse_value
from kdkit.training.callbacks import read_points
from kdkit.training.checkpoints import STATE
from kdkit.training.checkpoints import Position
from kdkit.training.checkpoints import RunningState
from kdkit.training.checkpoints import StageCheckpoints
from kdkit.training.checkpoints import StageState
from kdkit.training.checkpoints import read_state
from kdkit.training.checkpoints import write_state

PART = b"\n=====\n"
ROWS = Examples((["a film", "a text"],), np.array([0, 1]))
FINGERPRINT = {"model": "a", "seed": 0, "texts": "0" * 16}
COLUMNS = ("token_ids", "segment_ids", "lengths", "sources")


class Options:
    """The options of `kdkit generate` for its input."""

    prompt, output, kept_input = None, "/nowhere/to/write", None

    def __init__(self, file):
        self.input = file


def write(folder, name, content):
    """Writes a file in the folder of a reader; returns its path."""
    path = pathlib.Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def parts(content, count):
    """The parts of a file; empty ones are added if it has too few."""
    found = content.split(PART, count - 1)
    return [*found, *[b""] * (count - len(found))]


def candidates(content, folder):
    suffix = "jsonl" if content[:1] == b"j" else "tsv"
    read_candidates([write(folder, f"rows.{suffix}", content[1:])])


def stage_state(content, folder):
    read_state(write(folder, "state.json", content))
    StageCheckpoints(pathlib.Path(folder)).begin()


def running_state(content, folder):
    file = write(folder, "epoch-1-step-2.weights.h5", content)
    state = StageState((Position(1, 2),), {"epoch-1-step-2": digest(file)})
    write_state(pathlib.Path(folder, STATE), state)
    StageCheckpoints(pathlib.Path(folder)).begin()
    RunningState.read(file)


def copies_note(content, folder):
    file = write(folder, "copies.tsv", b"source_row\tsentence\n")
    write(folder, "copies.tsv.json", content)
    require_fingerprint(file, ROWS, {"model": "a", "seed": 0})


def begun_copies(content, folder):
    note, begun = parts(content, 2)
    _begun(
        write(folder, ".copies.tsv.part", begun),
        write(folder, ".copies.tsv.json", note),
        pathlib.Path(folder, "copies.tsv"),
        FINGERPRINT,
    )


def stored_copies(content, folder):
    folder = pathlib.Path(folder)
    index, *columns = parts(content, 1 + len(COLUMNS))
    write(folder, "index.json", index)
    for name, column in zip(COLUMNS, columns, strict=True):
        write(folder, name, column)
    if _is_stored(folder, None, len(ROWS)):
        stored = store_augmented(
            ROWS, folder / "gone.tsv", TOKENIZER, 8, folder
        )
        stored.rows_of_epoch(0, 0, 1)
        for row in range(len(stored.encoded)):
            stored.encoded.row(row).sum()


def written_texts(content, folder):
    note, texts = parts(content, 2)
    write(folder, "a.partial", texts)
    write(folder, "a.partial.json", note)
    begun = BegunTexts(
        pathlib.Path(folder, "a"), {"model": "a", "languages": []}
    )
    begun.lines()


def texts_to_read(content, folder):
    _read(Options(str(write(folder, "texts.txt", content))))


def stop_words(content, folder):
    _stop_words(write(folder, "stop.txt", content))


def saved_tokenizer(content, folder):
    config, pieces = parts(content, 2)
    write(folder, "tokenizer.json", config)
    write(folder, "vocabulary.txt", pieces)
    load_saved_tokenizer(folder)


def checkpoint_head(content, folder):
    config, weights = parts(content, 2)
    write(folder, "config.json", config)
    write(folder, "model.safetensors", weights)
    read_head(folder, {"logits": "classifier"}, class_names=("no", "yes"))


def checkpoint_model(content, folder):
    config, weights = parts(content, 2)
    folder = pathlib.Path(folder)
    write(folder, "config.json", config)
    write(folder, "model.safetensors", weights)
    require_model_directory(folder)
    require_weights(folder)
    require_safe_directory(folder)
    require_convertible(folder)
    if hugging_face_config(folder) is not None:
        backbone = load_backbone(folder, needs_pooler=False)
        checkpoint_language_model(folder, backbone)


def checkpoint_shards(content, folder):
    folder = pathlib.Path(folder)
    write(folder, "adapter_config.json", content)
    with contextlib.suppress(UsageError):
        require_model_directory(folder)
    config, weights = parts(_checkpoint(), 2)
    write(folder, "config.json", config)
    write(folder, "model-1.safetensors", weights)
    write(folder, "model.safetensors.index.json", content)
    has_masked_lm_head(folder)


def preset_settings(content, folder):
    write(folder, "kdkit.json", content)
    load_extras(folder)
    with_settings(_encoder(), saved_settings(folder))


@functools.cache
def _encoder():
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4}
    sizes |= {"intermediate_dim": 4, "vocabulary_size": 6}
    return student({**sizes, "max_sequence_length": 4})


def file_digests(content, folder):
    write(folder, "config.json", b"{}")
    write(folder, "digests.json", content)
    require_intact_files(pathlib.Path(folder))


def saved_config(content, folder):
    folder = pathlib.Path(folder)
    write(folder, "config.json", content)
    write(folder, "task.json", content)
    saved_size(str(folder), "max_sequence_length")
    way_to_restore(folder / "student")
    holds_plain_encoder(folder)
    require_convertible(folder)
    task_class(folder)


def answers(content, folder):
    write(folder, PREDICTIONS_FILE, content)
    read_predictions(pathlib.Path(folder))


def inputs_of_a_call(content, folder):
    inputs = pathlib.Path(folder) / "inputs"
    inputs.mkdir()
    write(inputs, CONTENT, content)
    SavedInputs(folder).save_table("train", {"text": ["a"], "label": ["b"]})


def curves(content, folder):
    write(folder, "events.out.tfevents.1", content)
    read_points(pathlib.Path(folder))


def marked_page(content, folder):
    replace_results(write(folder, "page.md", content), "results")


def axis(content, folder):
    for value in split_values(content.decode("utf-8", "replace")):
        parse_value(value)


def options_file(content, folder):
    file = write(folder, "my.toml", content)
    Parser("kdkit distill", DistillOptions, "").parse_args([str(file)])


def to_json(value):
    """The bytes of a JSON file."""
    return json.dumps(value).encode()


def _in_folder(make):
    """The bytes that a function writes to a file."""
    path = pathlib.Path("/tmp", f"seed-{id(make)}")
    make(path)
    content = path.read_bytes()
    path.unlink()
    return content


def _weights(path):
    RunningState((np.zeros((1, 2)), np.ones(1, "int64"))).write(path)


def _points(path):
    event = tf.compat.v1.Event(
        step=3,
        summary=tf.compat.v1.Summary(
            value=[tf.compat.v1.Summary.Value(tag="loss", simple_value=0.5)]
        ),
    )
    with tf.io.TFRecordWriter(str(path)) as file:
        file.write(event.SerializeToString())


def _checkpoint():
    config = {
        "architectures": ["BertForSequenceClassification"],
        "id2label": {"0": "YES", "1": "NO"},
    }
    head = {
        "classifier.weight": np.zeros((2, 3), "float32"),
        "classifier.bias": np.zeros(2, "float16"),
    }
    return to_json(config) + PART + safetensors.numpy.save(head)


def static_module(content, folder):
    """The tokenizer and the table of a static embedder."""
    whole, weights = parts(content, 2)
    write(folder, "tokenizer.json", whole)
    write(folder, "model.safetensors", weights)
    load_static_module(pathlib.Path(folder), normalize=True)
    keras.utils.clear_session()


def static_start(content, folder):
    """A run's vectors of tokens, `None` if they are damaged."""
    file = pathlib.Path(folder, "token_vectors.npz")
    file.write_bytes(content)
    read_arrays(file, START_SHAPES)


def _static_module():
    """The files of a static embedder."""
    with tempfile.TemporaryDirectory() as folder:
        pieces = pathlib.Path(folder, "pieces.txt")
        pieces.write_text("\n".join(TOKENIZER.get_vocabulary()))
        tokenizer = load_tokenizer(pieces)
        embedder = make_static_embedder(tokenizer, 4)
        save_static_module(embedder, tokenizer, pathlib.Path(folder), 8)
        return PART.join(
            pathlib.Path(folder, name).read_bytes()
            for name in ("tokenizer.json", "model.safetensors")
        )


def _start():
    """The arrays in a run of a static embedder."""
    opened = io.BytesIO()
    arrays = {name: np.ones(shape) for name, shape in START_SHAPES.items()}
    np.savez(opened, **arrays)
    return opened.getvalue()


def _tiny_bert():
    """The config and the weights of a checkpoint with an encoder."""
    backbone = _encoder()
    config = {
        "model_type": "bert",
        "vocab_size": 6,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "hidden_size": 4,
        "intermediate_size": 4,
        "max_position_embeddings": 4,
    }
    layout = FAMILIES["bert"].checkpoints.weights
    tensors = {
        tensor_name(layout, one.path): np.zeros(one.shape, "float32")
        for one in backbone.weights
    }
    for name, value in tensors.items():
        if "attention" in name and "Norm" not in name:
            square = name.endswith("weight")
            tensors[name] = value.reshape((4, 4) if square else 4)
    return to_json(config) + PART + safetensors.numpy.save(tensors)


def _tokenizer():
    """A saved tokenizer: its config and its vocabulary."""
    folder = pathlib.Path("/tmp", f"seed-{id(TOKENIZER)}")
    save_tokenizer(TOKENIZER, folder)
    found = [
        (folder / name).read_bytes()
        for name in ("tokenizer.json", "vocabulary.txt")
    ]
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    return PART.join(found)


def _columns():
    """Two rows and a copy, three tokens each."""
    values = {
        "token_ids": np.arange(9, dtype="int32"),
        "segment_ids": np.zeros(9, "int8"),
        "lengths": np.full(3, 3, "int32"),
        "sources": np.array([1], "int32"),
    }
    index = {
        "file": "0" * 16,
        "num_labeled": 2,
        "num_truncated": 0,
        "num_left_out": 0,
        "bytes": {name: value.nbytes for name, value in values.items()},
    }
    return PART.join(
        [to_json(index), *(one.tobytes() for one in values.values())]
    )


TOKENIZER = keras_hub.tokenizers.BertTokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film"]
)
NOTE = {
    "fingerprint": FINGERPRINT,
    "progress": {"rows": 2, "copies": 1, "size": 4},
}
START_SHAPES = {"components": (4, 2), "vectors": (6, 2)}
POSITION = {
    "epoch": 1, "step": 2, "seconds": 0.5, "best_epoch": 1, "best_value": 0.5,
}  # fmt: skip
MARKERS = b"<!-- kdkit:results:start -->\n<!-- kdkit:results:end -->\n"


# A valid input for each reader.
SEEDS = {
    stage_state: [to_json({"kept": [POSITION], "digests": {"final": "0"}})],
    running_state: [_in_folder(_weights)],
    copies_note: [
        to_json(
            {
                **NOTE,
                # That of the rows.
                "fingerprint": {**FINGERPRINT, "texts": "00e0818a93629d6e"},
            }
        )
    ],
    candidates: [
        b"tquery\tpositive\tnegative\tnegative_2\na cat\tcats\tdogs\train\n",
        b"j"
        + to_json({"query": "a", "positive": "b", "negatives": ["c", "d"]}),
    ],
    begun_copies: [to_json(NOTE) + PART + b"abcd"],
    stored_copies: [_columns()],
    written_texts: [
        to_json({"model": "a", "languages": []}) + PART + b"one\ntwo\nth",
        to_json(
            {
                "model": "a",
                "languages": [],
                "written": {
                    "bytes": 4,
                    "sha256": hashlib.sha256(b"one\n").hexdigest(),
                },
            }
        )
        + PART
        + b"one\ntw",
    ],
    texts_to_read: [b"a text\nanother\n"],
    stop_words: [b"the\nof\n"],
    saved_tokenizer: [_tokenizer()],
    static_module: [_static_module()],
    static_start: [_start()],
    file_digests: [to_json({"config.json": "5a2b462eeff5cf98"})],
    checkpoint_head: [_checkpoint()],
    checkpoint_model: [_tiny_bert()],
    checkpoint_shards: [
        to_json({"weight_map": {"cls.predictions.bias": "model-1.safetensors"}})
    ],
    preset_settings: [to_json({"activation": "relu"})],
    saved_config: [
        to_json({"class_name": "A", "config": {"max_sequence_length": 8}}),
        to_json({"model_type": "bert"}),
    ],
    answers: [
        to_json(
            with_own_digest(
                Predictions(
                    arm="student",
                    split="dev",
                    examples=2,
                    classes=("bad", "good"),
                    confusion=((1, 0), (1, 0)),
                    unit="examples",
                ).to_dict()
            )
        ),
    ],
    inputs_of_a_call: [to_json({"train": "0" * 64})],
    curves: [_in_folder(_points)],
    marked_page: [b"above\n" + MARKERS + b"below\n"],
    options_file: [
        b'recipe = "tinybert"\ntask = "sst2"\nrun_dir = "run"\ncontrol = true\n'
        b"[stages.intermediate_layer]\nepochs = 2\nlayer_map = {1 = 3}\n"
    ],
    axis: [b"1,2.5,true,uniform", b'{"1": 2, "2": 4},[1,2],"a,b"'],
}
