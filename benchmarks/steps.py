"""The time of training steps, each over a floor that it cannot avoid.

    python benchmarks/steps.py
    python benchmarks/steps.py tinybert cached-tinybert
    python benchmarks/steps.py --data-dir glue --teacher runs/teacher
    KERAS_BACKEND=jax python benchmarks/steps.py tinybert pkd

A case times one thing and its floor in turn, round by round, in one process.
Its result is the median of the rounds' ratios. Models have random weights, rows
random tokens; with --data-dir and --teacher (a BERT fine-tuned on SST-2) the
cases on a task measure SST-2's.

- A recipe: one update of its first stage at the paper's sizes (batch 8, length
  128), over the teacher's forward pass plus an update of the student alone.
- `cached-…`: an epoch with the teacher's outputs from disk, over an epoch of
  the student alone on the same rows, reading and padding included.
- `padding`: an epoch of rows as long as SST-2's in batches of similar lengths,
  over one with every batch padded to 128 tokens, as in the authors' code.
- `keras-…`: a step over that of `keras.distillation.Distiller`, with soft
  labels ("logits") and also the states of three blocks ("features"). Keras has
  no masks, projections or attention, so these are left out.
- `growth-…`: one size of data or models over a smaller one. Time may grow with
  the length to the power of 2.1 (attention), with other sizes of 1.1.

The last line is a JSON object. The exit status is 1 if a ratio is above its
goal. Cases without an epoch run on every backend.
"""

import dataclasses
import functools
import os
import sys
from collections.abc import Callable

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import adapter
import keras
import numpy as np
import timing
from keras import ops
from timing import MINILM, random_batch

import kdkit
from kdkit import models

BERT_BASE, TINYBERT = "bert_base_en_uncased", "tinybert_4_layer_en_uncased"
GPT2, MASS = "lightpaff_gpt2_4_layer_en", "lightpaff_mass_6_4_layer"
LENGTH = 128
KERAS_BLOCKS = {2: 4, 4: 8, 6: 12}  # from the student's block to the teacher's
SMALL = {"length": 64, "layers": 1, "classes": 2, "vocabulary": 10_000}


@dataclasses.dataclass(frozen=True)
class Case:
    """What is timed over what: names of the functions that `build` returns."""

    build: Callable
    timed: str
    floor: tuple[str, ...]
    goal: float  # the highest ratio
    on_task: bool = False  # takes --data-dir and --teacher


def main():
    parser = timing.parser(__doc__, CASES, "--data-dir", "--teacher")
    options = parser.parse_args()
    if bool(options.data_dir) != bool(options.teacher):
        parser.error("--data-dir and --teacher go together")
    on_task = [name for name, case in CASES.items() if case.on_task]
    results = []
    for name in options.cases or (on_task if options.teacher else CASES):
        keras.utils.set_random_seed(0)
        case = CASES[name]
        seconds = timing.in_turns(case.build(options))
        ratio = timing.ratio(seconds, case.timed, case.floor)
        found = {"median_ms": timing.medians(seconds)}
        is_met = ratio <= case.goal
        results.append(timing.result(name, ratio, case.goal, is_met, **found))
        keras.backend.clear_session()
    return timing.finish("steps", results, teacher=options.teacher)


def labels_loss():
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )


def xla(jit=True):
    """Whether XLA compiles, if Keras supports it."""
    return jit and keras.config.backend() != "torch"


def compiled(model, stage, loss=None, jit=True):
    """Compiles a model with a stage's optimizer, without metrics."""
    optimizer = adapter.optimizer(stage, jit)
    metrics = None if isinstance(model, kdkit.Distiller) else []
    model.compile(optimizer, loss, metrics=metrics, jit_compile=xla(jit))
    return model


def update(model, batch):
    """Returns a function for one update on a batch."""
    x, *more = keras.tree.map_structure(ops.convert_to_tensor, batch)
    x = {name: x[name] for name in getattr(model, "input", x)}  # Distiller: all
    return lambda: model.train_on_batch(x, *more)


def forward(model, x, jit):
    """Returns a function for a forward pass.

    It returns one number from all outputs, because copying the logits of a
    large vocabulary takes long, and a training step does not copy them.
    """
    summed = keras.Model(model.input, ops.sum(model.output))
    summed.compile(jit_compile=xla(jit))
    x = {name: ops.convert_to_tensor(x[name]) for name in model.input}
    return lambda: summed.predict_on_batch(x)


def epoch(model, batches, steps):
    """Returns a function that trains a model for another epoch."""
    fit = {"steps_per_epoch": steps, "verbose": 0, "shuffle": False}
    return lambda: model.fit(batches, **fit)


def recipe(make, *stage, on_task=False, jit=True):
    """The case of a recipe's stage.

    Args:
        make: function from options to teacher, a function that makes a student,
            and a batch.
        *stage: arguments of `adapter.stage`.
        on_task: bool, as in `Case`.
        jit: bool. Whether XLA compiles the whole step, and not the update only.
    """

    def build(options):
        teacher, make_student, batch = make(options)
        settings = adapter.stage(*stage)
        pair = (teacher, make_student())
        distiller, needs_loss = adapter.distiller(settings, *pair)
        loss = labels_loss() if needs_loss else None
        alone = compiled(make_student(), settings, labels_loss(), jit)
        distiller = compiled(distiller, settings, loss, jit)
        return {
            "teacher forward": forward(teacher, batch[0], jit),
            "student step": update(alone, batch),
            "distillation step": update(distiller, batch),
        }

    floor = ("teacher forward", "student step")
    return Case(build, "distillation step", floor, 1.05, on_task)


def on_task(make_student, name):
    """The case of a recipe's first stage on single sentences."""

    def make(options):
        teacher, rows = teacher_and_rows(options, BERT_BASE, 400)
        batch = random_batch(teacher.backbone.vocabulary_size)
        if options.teacher:  # the longest
            batches, steps = adapter.batches(rows, (8, 16))
            batches = batches.take(steps).as_numpy_iterator()
            batch = max(batches, key=lambda one: one[0]["token_ids"].shape[1])
        return teacher, functools.partial(make_student, teacher), batch

    return recipe(make, name, on_task=True)


def tinybert(teacher):
    vocabulary = {"vocabulary_size": teacher.backbone.vocabulary_size}
    return models.student(TINYBERT, num_classes=2, **vocabulary)


def half(teacher):
    """Makes a student with half of the teacher's blocks."""
    sizes = ("hidden_dim", "num_heads", "intermediate_dim", "vocabulary_size")
    sizes = {name: getattr(teacher.backbone, name) for name in sizes}
    num_layers = teacher.backbone.num_layers // 2
    return models.student({"num_layers": num_layers, **sizes}, num_classes=2)


def on_masked_tokens(student, options):
    """Pretraining on masked tokens, 15 % of them."""
    teacher = adapter.language_model(models.student(BERT_BASE))
    vocabulary_size = teacher.backbone.vocabulary_size
    x, _ = random_batch(vocabulary_size)
    generator = np.random.default_rng(0)
    places = np.tile(np.arange(LENGTH, dtype="int32"), (8, 1))
    x["mask_positions"] = generator.permuted(places, axis=1)[:, :19]
    y = generator.integers(0, vocabulary_size, (8, 19), dtype="int32")

    def make_student():
        backbone = models.student(student)
        backbone.pooled_dense.trainable = False  # not used, as in runs
        return adapter.language_model(backbone)

    return teacher, make_student, (x, y, np.ones(y.shape, "float32"))


def on_next_tokens(student, options):
    """Pretraining of GPT-2's student."""
    teacher = adapter.language_model(models.student(student, num_layers=12))
    x, _ = random_batch(teacher.backbone.vocabulary_size)
    y = np.roll(x["token_ids"], -1, axis=1)
    batch = (x, y, np.ones(y.shape, "float32"))
    return teacher, lambda: adapter.language_model(models.student(GPT2)), batch


def on_spans(student, options):
    """Pretraining of MASS's student: half of a sentence is predicted."""
    teacher = adapter.language_model(models.student("mass_6_layer"))
    x, _ = random_batch(teacher.backbone.vocabulary_size)
    x = {f"encoder_{name}": x[name] for name in ("token_ids", "padding_mask")}
    span = LENGTH // 2
    positions = np.tile(np.arange(span, dtype="int32"), (8, 1))
    x["decoder_token_ids"] = x["encoder_token_ids"][:, :span]
    x["decoder_padding_mask"] = x["encoder_padding_mask"][:, :span]
    x["decoder_positions"] = positions
    y = np.roll(x["decoder_token_ids"], -1, axis=1)
    batch = (x, y, np.ones(y.shape, "float32"))
    return teacher, lambda: adapter.language_model(models.student(MASS)), batch


def on_text(make, student, *stage, jit=True):
    """The case of a recipe's pretraining."""
    return recipe(functools.partial(make, student), *stage, jit=jit)


def teacher_and_rows(options, sizes, count):
    """A teacher and rows of SST-2, or random ones."""
    if not options.teacher:
        teacher = models.student(sizes, num_classes=2)
        vocabulary_size = teacher.backbone.vocabulary_size
        return teacher, timing.rows_like_sst2(count, vocabulary_size)
    loaded = models.load_classifier(options.teacher, 2)
    examples = kdkit.tasks.get_task("sst2").load("train", options.data_dir)
    chosen = np.random.default_rng(0).permutation(len(examples))[:count]
    rows = kdkit.data.encode(examples.take(chosen), loaded.tokenizer, LENGTH)
    return loaded.model, rows


def cached(stage, rows, order, distiller, student, loss=None, jit=True):
    """Epochs from a cache, and of the student alone on the same rows."""
    outputs, _ = adapter.cached_outputs(distiller, rows)
    batches, steps = adapter.batches(rows, order)
    if loss:  # against the same vector for every text
        width = student.output_shape[-1]
        batches = batches.map(lambda x, y: (x, ops.ones((len(y), width))))
    compiled(student, stage, loss or labels_loss(), jit)
    return {
        "student alone": epoch(student, batches, steps),
        "cached": epoch(distiller, *adapter.batches(rows, order, outputs)),
    }


def cached_tinybert(options):
    """TinyBERT's intermediate step: all attention and hidden states."""
    teacher, rows = teacher_and_rows(options, BERT_BASE, 640)
    stage = adapter.stage("tinybert")
    distiller, _ = adapter.distiller(stage, teacher, tinybert(teacher))
    compiled(distiller, stage)
    return cached(stage, rows, (32, 3), distiller, tinybert(teacher))


def cached_gpt2(options):
    """LightPAFF's fine-tuning with 64 of 8,000 classes for each position."""

    def decoder(num_layers, width):
        sizes = {"family": "gpt2", "vocabulary_size": 8000}
        sizes |= {"num_layers": num_layers, "max_sequence_length": LENGTH}
        sizes |= {"hidden_dim": width, "intermediate_dim": 4 * width}
        sizes |= {"num_heads": width // 64}
        return adapter.language_model(models.student(sizes))

    loss = kdkit.losses.LogitKLDivergence(top_k=64)
    distiller = kdkit.Distiller(
        decoder(6, 384),
        decoder(3, 192),
        [kdkit.Objective(loss, weight=0.5)],
        hard_label_weight=0.5,
        chunk_size=256,
    )
    stage = adapter.stage("lightpaff", 1, "gpt2")
    compiled(distiller, stage, labels_loss(), jit=False)
    ids = np.random.default_rng(0).integers(0, 8000, (64, LENGTH + 1))
    rows = adapter.text_rows(ids.astype("int32"))
    return cached(stage, rows, (16, 1), distiller, decoder(3, 192), jit=False)


def cached_embedding(options):
    """Vectors of a sentence encoder for three of its six layers."""
    teacher = models.make_embedder(models.student(MINILM))
    pair = [models.dropped_layers(teacher, [1, 3, 6]) for _ in range(2)]
    stage = adapter.stage("sentence_embedding")
    distiller, _ = adapter.distiller(stage, teacher, pair[0])
    compiled(distiller, stage)
    rows = timing.rows_like_sst2(1280, MINILM["vocabulary_size"])
    loss = keras.losses.CosineSimilarity()
    return cached(stage, rows, (64, 3), distiller, pair[1], loss)


def padding(options):
    """TinyBERT's intermediate step, 6×384 to 4×312."""
    teacher, rows = teacher_and_rows(options, MINILM, 320)
    stage = adapter.stage("tinybert")
    batches, steps = adapter.batches(rows, (32, 4))

    def padded(x, y):
        sides = [[0, 0], [0, LENGTH - ops.shape(x["token_ids"])[1]]]
        return {name: ops.pad(x[name], sides) for name in x}, y

    def train(batches):
        distiller, _ = adapter.distiller(stage, teacher, tinybert(teacher))
        return epoch(compiled(distiller, stage), batches, steps)

    return {"padded": train(batches.map(padded)), "bucketed": train(batches)}


def beside_keras(features, options):
    """A step of ours and of Keras' Distiller, with the same weights."""

    def pair():
        keras.utils.set_random_seed(0)
        sizes = {"hidden_dim": 512, "num_heads": 8, "intermediate_dim": 2048}
        return [
            models.student({"num_layers": count, **sizes}, 2, dropout=0.0)
            for count in (12, 6)
        ]

    flat = [  # the same layers, without a nested encoder
        keras.Model(
            one.backbone.input,
            one.get_layer("logits")(one.backbone.output["pooled_output"]),
        )
        for one in pair()
    ]
    losses, beside = kdkit.losses, keras.distillation
    ours = [kdkit.Objective(losses.LogitKLDivergence(2.0), weight=0.5)]
    theirs = [beside.LogitsDistillation(2.0, keras.losses.KLDivergence())]
    if features:
        states = {"layer_map": KERAS_BLOCKS, "include_embeddings": False}
        states |= {"tap": "hidden_states"}
        ours.append(kdkit.Objective(losses.HiddenStateMSE(), **states))
        for blocks in KERAS_BLOCKS.items():
            names = [f"transformer_layer_{block - 1}" for block in blocks]
            theirs.append(beside.FeatureDistillation("mse", *names[::-1]))
    weights = {"distillation_loss_weights": [1.0] * len(theirs)}
    work = {
        "kdkit": kdkit.Distiller(*pair(), ours, hard_label_weight=0.5),
        "keras": beside.Distiller(
            *flat, theirs, student_loss_weight=0.5, **weights
        ),
    }
    batch = random_batch(30522)
    for name, model in work.items():
        optimizer = keras.optimizers.AdamW(5e-5)
        model.compile(optimizer, labels_loss(), jit_compile=xla())
        work[name] = update(model, batch)
    return work


def growth(name, small, large, power=1.1):
    """The case of one size over a smaller one."""

    def build(options):
        return {size: of_size(name, size) for size in (small, large)}

    return Case(build, large, (small,), (large / small) ** power)


def of_size(name, size):
    """TinyBERT's objectives together, from 4×256 to 2×128, one size changed."""
    sizes = {**SMALL, name: size}
    same = {"vocabulary_size": sizes["vocabulary"], "num_heads": 4}
    same |= {"max_sequence_length": sizes["length"]}
    pair = []
    for times, width in ((2, 256), (1, 128)):
        own = {"num_layers": times * sizes["layers"], "hidden_dim": width}
        own |= {"intermediate_dim": 4 * width}
        pair.append(models.student({**same, **own}, sizes["classes"]))
    losses, states = kdkit.losses, {"tap": "hidden_states"}
    objectives = [
        kdkit.Objective(losses.AttentionMSE(), tap="attention_logits"),
        kdkit.Objective(losses.HiddenStateMSE(), projection="shared", **states),
        kdkit.Objective(losses.SoftCrossEntropy()),
    ]
    distiller = kdkit.Distiller(*pair, objectives)
    distiller.compile(keras.optimizers.AdamW(5e-5), jit_compile=xla())
    if name == "rows":
        rows = timing.rows_like_sst2(size, sizes["vocabulary"])
        return epoch(distiller, *adapter.batches(rows, (16, 3)))
    batch = random_batch(sizes["vocabulary"], 16, sizes["length"])
    return update(distiller, batch)


CACHED = ("cached", ("student alone",))
KERAS = ("kdkit", ("keras",), 1.05)
BERT_3, BERT_6 = "lightpaff_bert_3_layer_en_uncased", "bert_6_layer_en_uncased"
CASES = {
    "tinybert": on_task(tinybert, "tinybert"),
    "pkd": on_task(half, "pkd"),
    "vanilla_kd": on_task(half, "vanilla_kd"),
    "distilbert": on_text(on_masked_tokens, BERT_6, "distilbert"),
    "lightpaff": on_text(on_masked_tokens, BERT_3, "lightpaff"),
    "lightpaff-gpt2": on_text(on_next_tokens, GPT2, "lightpaff", 0, "gpt2"),
    # Its batches have many shapes in a run: XLA compiles the update.
    "lightpaff-mass": on_text(
        on_spans, MASS, "lightpaff", 0, "mass", jit=False
    ),
    "cached-tinybert": Case(cached_tinybert, *CACHED, 1.15, on_task=True),
    "cached-gpt2": Case(cached_gpt2, *CACHED, 1.15),
    "cached-embedding": Case(cached_embedding, *CACHED, 1.1),
    "padding": Case(padding, "bucketed", ("padded",), 1 / 3, on_task=True),
    "keras-logits": Case(functools.partial(beside_keras, False), *KERAS),
    "keras-features": Case(functools.partial(beside_keras, True), *KERAS),
    "growth-rows": growth("rows", 128, 2048),
    "growth-length": growth("length", 64, 512, power=2.1),
    "growth-layers": growth("layers", 1, 8),
    "growth-classes": growth("classes", 100, 10_000),
    "growth-vocabulary": growth("vocabulary", 10_000, 160_000),
}

if __name__ == "__main__":
    sys.exit(main())
