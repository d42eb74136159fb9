"""Runs on several devices have the numbers of runs on one."""

import argparse
import dataclasses
import json

import pytest
from kit.comparing import assert_same_numbers, assert_same_run
from kit.helpers import ON_TASKS

from kdkit.cli.loading import choose_devices
from kdkit.cli.resolving import with_strategy
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.settings import override
from kdkit.training import distill, distribution, pretrain, train_teacher
from kdkit.training import distribution as devices

pytestmark = pytest.mark.usefixtures("quick_runs")

# Batches of 8, 8 and 3 rows: on four devices shares of 0 and 1 of the last.
ROWS = ["data.max_train_rows=19"]
TEXTS = ["corpus.max_texts=60", "corpus.held_out_every=5"]


def in_batches_of_8(settings):
    return dataclasses.replace(
        settings,
        stages=tuple(
            dataclasses.replace(stage, batch_size=8, keep_best=False)
            for stage in settings.stages
        ),
    )


@pytest.fixture
def use_devices(monkeypatch):
    """Lets TensorFlow seem to see so many devices."""

    def use(number):
        names = [f"CPU:{place}" for place in range(number)]
        monkeypatch.setattr(distribution, "visible_devices", lambda: names)

    return use


@pytest.fixture(scope="module")
def teacher_settings():
    return in_batches_of_8(override(smoke.TEACHER, ROWS))


@pytest.fixture(scope="module")
def teacher_run(teacher_settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "teacher"
    train_teacher(teacher_settings, path)
    return path


@pytest.fixture(scope="module")
def pretraining_settings():
    return in_batches_of_8(override(smoke.PRETRAINING, TEXTS))


@pytest.fixture(scope="module")
def pretrained_run(pretraining_settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "pretrained"
    pretrain(pretraining_settings, path)
    return path


@pytest.fixture(scope="module", params=ON_TASKS)
def recipe_settings(request, teacher_run):
    settings = smoke.distillation(RECIPES[request.param])
    pretrained = None
    if settings.pretrained is not None:
        pretrained = str(request.getfixturevalue("pretrained_run"))
    settings = dataclasses.replace(
        in_batches_of_8(settings),
        teacher=str(teacher_run),
        pretrained=pretrained,
    )
    return override(settings, ROWS + TEXTS * (settings.corpus is not None))


@pytest.fixture(scope="module")
def recipe_run(recipe_settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / recipe_settings.recipe
    distill(recipe_settings, path)
    return path


@pytest.mark.large
@pytest.mark.parametrize("number", [2, 4])
def test_a_recipe_on_several_devices_is_that_on_one(
    number, recipe_settings, recipe_run, use_devices, tmp_path
):
    use_devices(number)
    distill(with_strategy(recipe_settings, "mirrored"), tmp_path / "run")
    assert_same_run(tmp_path / "run", recipe_run)


@pytest.mark.large
def test_labels_on_four_devices_are_those_on_one(
    teacher_settings, teacher_run, use_devices, tmp_path
):
    use_devices(4)
    settings = with_strategy(teacher_settings, "mirrored")
    train_teacher(settings, tmp_path / "run")
    assert_same_run(tmp_path / "run", teacher_run)


@pytest.mark.large
@pytest.mark.parametrize(
    "name", ["sentence_embedding", "static_embedding", "multilingual"]
)
def test_a_sentence_encoder_on_four_devices_has_the_numbers_of_one(
    name, pretrained_run, use_devices, tmp_path
):
    settings = dataclasses.replace(
        in_batches_of_8(smoke.embedder(RECIPES[name])),
        teacher=str(pretrained_run),
    )
    settings = override(settings, ["data.max_texts=60"])
    distill(settings, tmp_path / "one")
    use_devices(4)
    distill(with_strategy(settings, "mirrored"), tmp_path / "four")
    assert_same_numbers(tmp_path / "four", tmp_path / "one")


@pytest.mark.large
def test_text_on_four_devices_is_that_on_one(
    pretraining_settings, pretrained_run, use_devices, tmp_path
):
    """The masks are those of whole batches, whoever reads them."""
    use_devices(4)
    settings = with_strategy(pretraining_settings, "mirrored")
    pretrain(settings, tmp_path / "run")
    assert_same_numbers(tmp_path / "run", pretrained_run)


@pytest.mark.parametrize(
    ("number", "config", "used"),
    [
        (None, {"strategy": "mirrored", "replicas": 4}, [4]),
        (2, {"strategy": "mirrored", "replicas": 4}, [2]),
        (None, {"strategy": "mirrored"}, []),
        (None, {}, []),
    ],
)
def test_a_config_alone_takes_as_many_devices_as_its_run_had(
    number, config, used, tmp_path, monkeypatch
):
    taken = []
    monkeypatch.setattr(
        devices, "use_devices", lambda number: taken.append(number)
    )
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    choose_devices(
        argparse.Namespace(strategy=None, config=str(file), devices=number)
    )
    assert taken == used


def test_runs_in_a_run_share_its_strategy():
    settings = smoke.distillation(RECIPES["tinybert"])
    both = with_strategy(settings, "mirrored")
    assert both.teacher.strategy == "mirrored"
