"""The rows of SST-2, a teacher and a student's sizes in one file (gpu.py)."""

import dataclasses
import json
import os
import sys

import numpy as np

import kdkit

MAX_MEGABYTES = 60
SPLITS = ("train", "dev")


def make_bundle(options):
    """Writes the rows of SST-2, a teacher and a student's sizes as one file."""
    task = kdkit.tasks.get_task("sst2")
    loaded = kdkit.models.load_classifier(options.teacher, task.num_classes)
    arrays = {}
    for split in SPLITS:
        encoded = kdkit.data.encode(
            task.load(split, options.data_dir),
            loaded.tokenizer,
            options.sequence_length,
        )
        arrays[f"{split}_token_ids"] = encoded.token_ids.astype("uint16")
        arrays[f"{split}_lengths"] = encoded.lengths.astype("uint16")
        arrays[f"{split}_labels"] = encoded.labels.astype("uint8")
    backbone = loaded.model.backbone
    sizes = {
        name: getattr(backbone, name)
        for name in (
            "vocabulary_size",
            "num_layers",
            "num_heads",
            "hidden_dim",
            "intermediate_dim",
            "max_sequence_length",
        )
    }
    student = dataclasses.asdict(
        kdkit.models.student_config(
            options.student, vocabulary_size=sizes["vocabulary_size"]
        )
    )
    config = {"teacher": {"family": "bert", **sizes}, "student": student}
    for number, value in enumerate(loaded.model.get_weights()):
        arrays[f"weight_{number}"] = value.astype("float16")
    np.savez_compressed(
        options.make_bundle, config=np.array(json.dumps(config)), **arrays
    )
    size = os.path.getsize(options.make_bundle) / 1e6
    if size > MAX_MEGABYTES:
        sys.exit(
            f"{options.make_bundle} has {size:.0f} MB, more than "
            f"{MAX_MEGABYTES}. Use a smaller teacher."
        )
    print(
        json.dumps({"bundle": options.make_bundle, "megabytes": round(size, 1)})
    )


def read_bundle(options):
    """The teacher, the student's sizes and the padded rows of a bundle."""
    with np.load(options.bundle) as file:
        arrays = dict(file)
    config = json.loads(str(arrays["config"]))
    teacher = kdkit.models.student(config["teacher"], num_classes=2)
    teacher.set_weights(
        [
            arrays[f"weight_{number}"].astype("float32")
            for number in range(len(teacher.get_weights()))
        ]
    )
    rows = {}
    for split in SPLITS:
        lengths = arrays[f"{split}_lengths"].astype("int32")
        if lengths.max() > options.sequence_length:
            sys.exit(
                f"{options.bundle} has rows of {lengths.max()} tokens. Use "
                f"--sequence-length {lengths.max()} or more."
            )
        places = np.arange(options.sequence_length) < lengths[:, np.newaxis]
        token_ids = np.zeros(places.shape, "int32")
        token_ids[places] = arrays[f"{split}_token_ids"]
        x = {
            "token_ids": token_ids,
            "segment_ids": np.zeros_like(token_ids),
            "padding_mask": places.astype("int32"),
        }
        rows[split] = x, arrays[f"{split}_labels"].astype("int32")
    return teacher, config["student"], rows
