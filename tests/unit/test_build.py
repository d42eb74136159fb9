"""kdkit.runs.build: what a config leaves open is resolved once."""

import dataclasses
import types

import pytest
import tensorflow as tf
from kit.encoders import encoder, tokenizer

import kdkit
from kdkit import models
from kdkit.runs.build import compiled, resolved, with_enough_updates
from kdkit.runs.classifiers import TaskKind
from kdkit.runs.configure import config_of
from kdkit.runs.given import SavedInputs
from kdkit.runs.language_models import TextKind
from kdkit.runs.names import merged

CONFIG = config_of("tinybert", {}, smoke=True)


def left_open(**changes):
    training = CONFIG.training.replace(jit_compile="auto", **changes)
    return CONFIG.replace(training=training)


def with_least(updates, **changes):
    stages = tuple(
        dataclasses.replace(stage, least_updates=updates)
        for stage in CONFIG.stages
    )
    return CONFIG.replace(stages=stages, **changes)


@pytest.mark.parametrize(
    ("config", "rows", "expected"),
    [
        (left_open(), 64, "update"),
        (left_open(), 64_000, True),
        (left_open(strategy="mirrored"), 64_000, False),
        (left_open().replace(augmented={"file": "copies.tsv"}), 64, True),
        (CONFIG, 64_000, False),  # as asked
    ],
)
def test_a_short_run_compiles_the_update_alone(config, rows, expected):
    assert compiled(config, rows) == expected


def test_a_short_run_on_a_gpu_compiles_its_steps(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    assert compiled(left_open(), 64) is True


@pytest.mark.parametrize(
    ("rows", "epochs"), [(64, 5), (3200, 1), (1, 10), (None, 1)]
)
def test_a_small_table_has_more_epochs(rows, epochs):
    stages = with_enough_updates(with_least(10), rows)
    assert {stage.epochs for stage in stages} == {epochs}


def test_a_small_table_has_at_most_fifty_epochs():
    stages = with_enough_updates(with_least(1000), 32)
    assert {stage.epochs for stage in stages} == {50}
    config = with_least(1000, augmented={"file": "copies.tsv"})
    assert {stage.epochs for stage in with_enough_updates(config, 32)} == {1}


def test_what_was_resolved_is_named_by_its_path():
    student = CONFIG.student.replace(num_layers=5)
    after = with_least(7).replace(student=student)
    assert resolved(CONFIG, CONFIG) == {}
    assert resolved(CONFIG, after) == {
        "stages.intermediate_layer.least_updates": (0, 7),
        "stages.prediction_layer.least_updates": (0, 7),
        "student.num_layers": (2, 5),
    }


OTHER_MAP = {"objectives": {"attention_mse": {"layer_map": {"1": 2}}}}


@pytest.mark.parametrize(
    ("recipe", "more", "expected"),
    [
        ("tinybert", {}, (2, 4, 6)),  # which the student is compared with
        ("tinybert", {"stages": {"intermediate_layer": OTHER_MAP}}, (2, 4, 6)),
        ("tinybert", {"only_stages": "prediction_layer"}, (2, 4, 6)),
        ("tinybert", {"student": {"rule": "bottom"}}, (1, 2, 3)),
        ("pkd", {}, (1, 3, 6)),
    ],
)
def test_a_rule_chooses_layers(recipe, more, expected):
    given = {"teacher": "t", "student": {"copy_from": "teacher"}}
    given = merged({"data": {"task": "sst2"}} | given, more)
    kind = object.__new__(TaskKind)
    kind.config = config_of(recipe, given)
    student = kind.config.student.replace(num_layers=3)
    encoder = types.SimpleNamespace(backbone=None, num_layers=6)
    assert kind.layers(student, encoder) == expected


@pytest.mark.parametrize("place", ["teacher", "t/", "t/teacher", "another"])
def test_the_place_of_the_teacher_is_the_teacher(place, tmp_path, monkeypatch):
    """Whose head is copied, too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t/teacher").mkdir(parents=True)
    (tmp_path / "t/teacher/config.json").write_text("{}")
    student = {"checkpoint": place, "num_layers": 3}
    given = {"teacher": "t", "data": {"task": "sst2"}, "student": student}
    kind = object.__new__(TaskKind)
    kind.config = config_of("tinybert", given)
    assert kind.copies_teacher == (place != "another")


@pytest.mark.parametrize(
    ("family", "size", "mask"), [("bert", 100, "[MASK]"), ("gpt2", 300, None)]
)
def test_a_vocabulary_is_trained_for_the_family(family, size, mask, tmp_path):
    given = {"tokenizer": size, "student": {"family": family}}
    config = config_of("pretraining", given, smoke=True)
    tokenizer = TextKind(config, tmp_path).tokenizer
    assert tokenizer.vocabulary_size() == size
    assert tokenizer.mask_token == mask


def test_a_loaded_model_is_saved_whole(tmp_path):
    """With its prompts and its similarity, or the names of its classes."""
    inputs, words = SavedInputs(tmp_path), tokenizer("bert")
    how = models.Conventions({"query": "query: "}, similarity="dot")
    pooled = models.make_embedder(encoder("bert", None), models.Pooling("mean"))
    place = inputs.save_model(
        "teacher", models.LoadedModel(pooled, words, conventions=how)
    )
    assert models.load_embedder(place).conventions == how
    head = models.Head("sequence", 3, ("c", "a", "b"))
    loaded = models.LoadedModel(encoder("bert"), words, head=head)
    place = inputs.save_model("teacher_2", loaded)
    assert models.find(place).class_names == head.class_names
    untrained = dataclasses.replace(loaded, has_trained_head=False)
    with pytest.raises(ValueError, match="no trained head"):
        kdkit.distill(untrained, data="sst2", recipe="pkd", run_dir=tmp_path)
