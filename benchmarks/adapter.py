"""All that the benchmarks use besides names that kdkit keeps."""

import tempfile

import kdkit
from kdkit import data
from kdkit.export import measure_latencies  # noqa: F401
from kdkit.models import language_model  # noqa: F401
from kdkit.recipes import RECIPES
from kdkit.teacher_cache.cache import OutputsOfTeachers, TeacherCache
from kdkit.training import make_optimizer

CACHES = tempfile.TemporaryDirectory()  # files are read until the end


def stage(recipe, number=0, family=None):
    found = RECIPES[recipe]
    return (found.for_families[family] if family else found).stages[number]


def optimizer(stage, jit=True):
    return make_optimizer(stage, 1000, fused=not jit)


def distiller(stage, *pair):
    """The stage's `Distiller`, and whether it needs a loss on labels."""
    args = (*pair, stage.weighted_objectives(), stage.label_weight)
    made = kdkit.Distiller(*args, chunk_size=stage.chunk_size)
    return made, stage.label_weight > 0


def projection(distiller):
    return next((one.kernel.numpy() for one in distiller.projections), None)


def recipe_fields(rows, rates, **fields):
    """Fields of both stages of `kdkit distill tinybert`."""
    words = f"data.max_train_rows={rows} data.num_buckets=16"
    for stage, rate in zip(RECIPES["tinybert"].stages, rates, strict=True):
        for name, value in {**fields, "learning_rate": rate}.items():
            words += f" stages.{stage.name}.{name}={value}"
    words += " data.sequence_length=128 training.jit_compile=update"
    return words.split()


def random_rows(lengths, ids, labels):
    return data.EncodedExamples(ids, 0 * ids, lengths, labels, 64, 0, 0)


def text_rows(ids):
    return data.PackedRows(data.PackedCorpus(ids, 1, ids.shape[1] - 1))


def batches(rows, order, outputs=None):
    """Endless batches of rows as a `tf.data.Dataset`, and steps an epoch."""
    stream = data.BatchStream(rows, data.Buckets(*order), features=outputs)
    return stream.training(), stream.steps_per_epoch


def cached_outputs(distiller, rows):
    """The teacher's outputs from a cache that is filled here; its bytes."""
    folder = tempfile.mkdtemp(dir=CACHES.name)
    cache = TeacherCache(folder, distiller.teacher, {})
    outputs = cache.outputs(rows, distiller.teacher_entries[0])
    size = sum(one.stat().st_size for one in cache.directory.rglob("*.npy"))
    return OutputsOfTeachers([outputs]), size
