"""The runs that kill.py kills: every kind, on tiny data, with dropout."""

import dataclasses
import json

from kdkit import data
from kdkit.recipes import RECIPES, pretraining
from kdkit.recipes.stages import same_number_of_updates, without_teacher
from kdkit.runs import smoke
from kdkit.settings import override, to_dict
from kdkit.training import (
    AugmentedSettings,
    CacheSettings,
    CorpusSettings,
    MassSettings,
    ModelSettings,
    PairSettings,
    PretrainSettings,
    SentenceSettings,
    UnlabeledSettings,
)

SAVING = ["checkpoint_minutes=0"]
TEACHER = "teacher"  # for the recipes that do not train one
VOCABULARY_SIZE = 300
LENGTH = 16


def recipe_settings(name, teacher):
    """Returns settings of a recipe on generated sentences, with dropout.

    One recipe has a control arm and trains its own teacher. The others use the
    existing teacher.
    """
    settings = smoke.distillation(RECIPES[name])
    if name != "tinybert":
        settings = dataclasses.replace(settings, teacher=str(teacher))
    has_sizes = settings.student.copy_from is None
    changes = [
        *SAVING,
        "data.max_train_rows=64",
        *(f"stages.{n}.epochs=2" for n, _ in enumerate(settings.stages)),
    ]
    if has_sizes and settings.student.bilstm is None:
        changes.append("student.dropout=0.1")
    if settings.corpus is not None:
        changes.append("corpus.max_texts=120")
    if isinstance(settings.pretrained, PretrainSettings):
        changes += [
            "pretrained.corpus.max_texts=120",
            "pretrained.checkpoint_minutes=0",
        ]
    settings = override(settings, changes)
    if name == "tinybert":
        settings = dataclasses.replace(
            settings,
            teacher=tiny_teacher(),
            control=same_number_of_updates(settings.stages),
        )
    return settings


def with_all_rows(name, folder):
    """Returns a recipe with a cache, augmented and unlabelled examples."""
    rows = data.load_sentiment("train").texts[0]
    copies = [
        f"{row}\t{' '.join(text.split()[1:])}" for row, text in enumerate(rows)
    ]
    (folder / "copies.tsv").write_text(
        "\n".join(["source_row\tsentence", *copies, *copies[::2]]) + "\n"
    )
    more = data.generate_sentiment(40, seed=5).texts[0]
    (folder / "more.txt").write_text("".join(f"{text}\n" for text in more))
    return dataclasses.replace(
        recipe_settings(name, folder / TEACHER),
        augmented=AugmentedSettings(str(folder / "copies.tsv"), 1),
        unlabeled=UnlabeledSettings((str(folder / "more.txt"),), (), 0.5),
        cache=CacheSettings("cache"),
    )


def tiny_teacher():
    """A classifier on generated sentences, with dropout."""
    return override(
        smoke.TEACHER,
        [
            *SAVING,
            "data.max_train_rows=64",
            "data.num_buckets=2",
            "model.dropout=0.1",
        ],
    )


def text_settings(folder):
    """Returns settings for sentences, pairs and running text."""
    texts = [text for (text,) in _sentences(120)]
    files = {}
    for name, lines in (("en", texts[:60]), ("de", texts[60:])):
        files[name] = folder / f"text.{name}"
        files[name].write_text("".join(f"{line}\n" for line in lines))
    both = tuple(map(str, files.values()))
    languages = ("en", "de")
    return {
        "gpt2": (
            CorpusSettings(both[:1], sequence_length=LENGTH, held_out_every=9),
            CorpusSettings(both[1:], sequence_length=LENGTH, held_out_every=9),
            ModelSettings(
                family="gpt2",
                num_layers=2,
                hidden_dim=16,
                num_heads=2,
                intermediate_dim=32,
                max_sequence_length=LENGTH,
                dropout=0.1,
            ),
        ),
        "mass": (
            SentenceSettings(
                both,
                languages=languages,
                sequence_length=LENGTH,
                held_out_every=9,
            ),
            PairSettings(
                both,
                languages=languages,
                sequence_length=LENGTH,
                held_out_every=9,
            ),
            ModelSettings(
                mass=MassSettings(
                    1, 1, 8, 2, 16, max_sequence_length=LENGTH, dropout=0.1
                )
            ),
        ),
    }


def _sentences(count):
    examples = data.load_sentiment("train")
    return list(zip(*examples.texts, strict=True))[:count]


def shortened(stages):
    return tuple(
        dataclasses.replace(
            stage, epochs=1, learning_rate=1e-3, batch_tokens=256
        )
        for stage in stages
    )


def chain(family, texts):
    """LightPAFF's four steps as the settings of the last one."""
    general_text, task_text, model = texts[family]
    on_general, on_task = RECIPES["lightpaff"].for_families[family].stages
    common = {"jit_compile": False, "checkpoint_minutes": 0.0}
    on_pairs = family == "mass"
    of_step = {
        "pretrained": (
            general_text,
            pretraining.FROM_SCRATCH if on_pairs else pretraining.STAGES,
            {"model": model, "vocabulary_size": VOCABULARY_SIZE},
        ),
        "teacher": (
            task_text,
            pretraining.PAIRS if on_pairs else (without_teacher(on_task),),
            {"model": ModelSettings(checkpoint="pretrained")},
        ),
        "general": (
            general_text,
            (on_general,),
            {"model": model, "teacher": "pretrained", "recipe": "lightpaff"},
        ),
        "student": (
            task_text,
            (on_task,),
            {
                "model": ModelSettings(checkpoint="general"),
                "teacher": "teacher",
                "recipe": "lightpaff",
            },
        ),
    }
    steps = {
        name: PretrainSettings(
            corpus=text, stages=shortened(stages), **further, **common
        )
        for name, (text, stages, further) in of_step.items()
    }
    last = steps.pop("student")
    return dataclasses.replace(last, steps_before=steps)


def all_runs(folder):
    """The verb and the settings of each kind of run, by name."""
    texts = text_settings(folder)
    teacher = override(tiny_teacher(), ["stages.0.epochs=3"])
    runs = {
        "train-teacher": ("train-teacher", teacher),
        "in parts, bfloat16": (
            "train-teacher",
            override(
                teacher,
                [
                    "dtype_policy=mixed_bfloat16",
                    "stages.0.gradient_accumulation_steps=4",
                ],
            ),
        ),
        "float16": (
            "train-teacher",
            override(
                teacher,
                [
                    "dtype_policy=mixed_float16",
                ],
            ),
        ),
        **{
            name: ("distill", recipe_settings(name, folder / TEACHER))
            for name in RECIPES
        },
        "pkd, all rows, cached": ("distill", with_all_rows("pkd", folder)),
        "masked tokens": (
            "pretrain",
            override(
                smoke.PRETRAINING,
                [*SAVING, "corpus.max_texts=120", "model.dropout=0.1"],
            ),
        ),
        "gpt2, four steps": ("distill", chain("gpt2", texts)),
        "mass, four steps": ("distill", chain("mass", texts)),
    }
    for name, (_, settings) in runs.items():
        (folder / f"{name}.json").write_text(json.dumps(to_dict(settings)))
    return {name: verb for name, (verb, _) in runs.items()}
