"""The cost of a distillation step compared with its unavoidable work.

    python benchmarks/distill_step.py
    python benchmarks/distill_step.py --only tinybert pkd
    python benchmarks/distill_step.py --data-dir glue --teacher runs/teacher

Measures one update of a recipe's stage, at the paper's sizes, against its
floor: the teacher's forward pass plus an update of the student alone on labels.
TinyBERT's intermediate step and Patient KD on a task; DistilBERT's and
LightPAFF's pretraining on masked tokens, LightPAFF's for GPT-2 on the next
token and for MASS on hidden spans. The three are timed in turn, round by round,
in one process, so that the ratio of the medians is for one machine in one
state. Models have random weights and rows random tokens of full length; with
--data-dir and --teacher, TinyBERT's and Patient KD's are those of SST-2.

The last line is a JSON object. The exit status is 1 if a ratio is above the
goal.
"""

import argparse
import json
import os
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from measuring import compiled_forward, fit_step, median_seconds, random_batch

import kdkit
from kdkit import data, models
from kdkit.recipes import RECIPES
from kdkit.taps import select_inputs
from kdkit.tasks import get_task
from kdkit.training.optimizers import make_optimizer

GOAL = 1.05
TEACHER = "bert_base_en_uncased"
GPT2, MASS = "lightpaff_gpt2_4_layer_en", "lightpaff_mass_6_4_layer"
GPT2_TEACHER_LAYERS = 12
MASKED_SHARE = 0.15
# Of MASS, whose batches have many shapes in a run: XLA compiles the update.
UPDATE_ALONE = ("lightpaff mass",)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", metavar="DIR", help="GLUE's folder")
    parser.add_argument(
        "--teacher", metavar="MODEL", help="fine-tuned on SST-2"
    )
    parser.add_argument("--only", nargs="+", choices=CASES, default=[*CASES])
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if bool(options.data_dir) != bool(options.teacher):
        parser.error("--data-dir and --teacher go together")
    if options.teacher and not any(
        CASES[name] is on_task for name in options.only
    ):
        parser.error("--teacher is for recipes on SST-2, tinybert and pkd")
    results = []
    for name in options.only:
        if options.teacher and CASES[name] is not on_task:
            continue
        results.append(measure(name, options))
        keras.backend.clear_session()
    missed = [
        result["recipe"]
        for result in results
        if result["step_over_floor"] > GOAL
    ]
    print(
        json.dumps(
            {
                "benchmark": "distill_step",
                "teacher": options.teacher,
                "batch_size": options.batch_size,
                "sequence_length": options.sequence_length,
                "results": results,
                "goal": GOAL,
                "missed": missed,
            }
        )
    )
    return 1 if missed else 0


def measure(name, options):
    """Returns medians of a recipe's step and its floor, and their ratio."""
    keras.utils.set_random_seed(0)
    teacher, make_student, stage, batch = CASES[name](name, options)
    jit_compile = name not in UPDATE_ALONE
    student = make_student()
    distiller = kdkit.Distiller(
        teacher,
        make_student(),
        stage.weighted_objectives(),
        stage.label_weight,
        chunk_size=stage.chunk_size,
    )
    inputs = select_inputs(teacher, batch[0])
    plain_batch = (select_inputs(student, batch[0]), *batch[1:])
    medians = median_seconds(
        {
            "teacher forward": compiled_forward(teacher, inputs, jit_compile),
            "student step": update(student, plain_batch, stage, jit_compile),
            "distillation step": update(distiller, batch, stage, jit_compile),
        },
        options.rounds,
    )
    floor = medians["teacher forward"] + medians["student step"]
    ratio = medians["distillation step"] / floor
    print(f"{name}, {stage.name}")
    for part, median in medians.items():
        print(f"  {part:<18} {1000 * median:8.1f} ms")
    print(f"  {'over its floor':<18} {ratio:8.3f}", flush=True)
    return {
        "recipe": name,
        "stage": stage.name,
        "rows": int(batch[1].shape[0]),
        "median_ms": {
            part: round(1000 * median, 1) for part, median in medians.items()
        },
        "step_over_floor": round(ratio, 3),
    }


def on_task(name, options):
    """A recipe's first stage on a task of sentences."""
    stage, *_ = RECIPES[name].stages_for(get_task("sst2"))
    if options.teacher:
        teacher, batch = real_teacher_and_batch(options)
    else:
        teacher = models.student(TEACHER, num_classes=2)
        batch = random_batch(
            options.batch_size,
            options.sequence_length,
            teacher.backbone.vocabulary_size,
        )
    vocabulary_size = teacher.backbone.vocabulary_size
    if name == "tinybert":
        return (
            teacher,
            lambda: models.student(
                RECIPES[name].student,
                num_classes=2,
                vocabulary_size=vocabulary_size,
            ),
            stage,
            batch,
        )
    num_layers = teacher.backbone.num_layers // 2
    head = models.Head("sequence", 2)

    def make_student():
        blocks = models.choose_blocks(
            "first", teacher.backbone.num_layers, num_layers
        )
        encoder = models.copy_blocks(teacher, blocks)
        return models.add_head(encoder, head)

    return teacher, make_student, stage, batch


def on_masked_tokens(name, options):
    """Pretraining on masked tokens; DistilBERT's student has six blocks."""
    stage, *_ = RECIPES[name].stages_on_text()
    students = {
        "distilbert": "bert_6_layer_en_uncased",
        "lightpaff": RECIPES["lightpaff"].student,
    }
    teacher = models.language_model(models.student(TEACHER))
    vocabulary_size = teacher.backbone.vocabulary_size
    x, _ = random_batch(
        options.batch_size, options.sequence_length, vocabulary_size
    )
    count = round(MASKED_SHARE * options.sequence_length)
    shape = (options.batch_size, count)
    generator = np.random.default_rng(0)
    places = generator.permuted(
        np.tile(np.arange(options.sequence_length), (shape[0], 1)), axis=1
    )
    x["mask_positions"] = tf.constant(places[:, :count], "int32")
    y = tf.constant(generator.integers(0, vocabulary_size, shape), "int32")

    def make_student():
        backbone = models.student(students[name])
        backbone.pooled_dense.trainable = False  # not used, as in runs
        return models.language_model(backbone)

    return teacher, make_student, stage, (x, y, tf.ones(shape))


def on_next_tokens(name, options):
    """Pretraining of GPT-2's student."""
    del name
    stage, *_ = RECIPES["lightpaff"].for_families["gpt2"].stages
    teacher = models.language_model(
        models.student(GPT2, num_layers=GPT2_TEACHER_LAYERS)
    )
    x, _ = random_batch(
        options.batch_size,
        options.sequence_length,
        teacher.backbone.vocabulary_size,
    )
    y = tf.roll(x["token_ids"], -1, axis=1)
    return (
        teacher,
        lambda: models.language_model(models.student(GPT2)),
        stage,
        (x, y, tf.ones(y.shape)),
    )


def on_spans(name, options):
    """Pretraining of MASS's student: half of a sentence is predicted."""
    del name
    stage, *_ = RECIPES["lightpaff"].for_families["mass"].stages
    teacher = models.language_model(models.student("mass_6_layer"))
    vocabulary_size = teacher.backbone.vocabulary_size
    x, _ = random_batch(
        options.batch_size, options.sequence_length, vocabulary_size
    )
    span = options.sequence_length // 2
    x = {
        "encoder_token_ids": x["token_ids"],
        "encoder_padding_mask": x["padding_mask"],
        "decoder_token_ids": x["token_ids"][:, :span],
        "decoder_padding_mask": x["padding_mask"][:, :span],
        "decoder_positions": tf.broadcast_to(
            tf.range(span), (options.batch_size, span)
        ),
    }
    y = tf.roll(x["decoder_token_ids"], -1, axis=1)
    return (
        teacher,
        lambda: models.language_model(models.student(MASS)),
        stage,
        (x, y, tf.ones(y.shape)),
    )


CASES = {
    "tinybert": on_task,
    "pkd": on_task,
    "distilbert": on_masked_tokens,
    "lightpaff": on_masked_tokens,
    "lightpaff gpt2": on_next_tokens,
    "lightpaff mass": on_spans,
}


def real_teacher_and_batch(options):
    """The teacher, and the longest of the first fifty batches of SST-2."""
    task = get_task("sst2")
    loaded = models.load_classifier(options.teacher, task.num_classes)
    rows = task.load("train", options.data_dir)
    encoded = data.encode(rows, loaded.tokenizer, options.sequence_length)
    batches = data.BatchStream(encoded, data.Buckets(options.batch_size))
    batch = max(
        batches.training().take(50),
        key=lambda batch: batch[0]["token_ids"].shape[1],
    )
    return loaded.model, batch


def update(model, batch, stage, jit_compile):
    """Returns a function for one step, compiled as in `fit`."""
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    needs_loss = stage.label_weight or not isinstance(model, kdkit.Distiller)
    model.compile(
        optimizer=make_optimizer(stage, 1000, fused=not jit_compile),
        loss=loss if needs_loss else None,
        metrics=None if isinstance(model, kdkit.Distiller) else [],
        jit_compile=jit_compile,
    )
    return fit_step(model, batch)


if __name__ == "__main__":
    sys.exit(main())
