"""A teacher that is always right, and rows that it labelled."""

import dataclasses
import json

import numpy as np
import pytest
from kit.helpers import eager_steps, spread_weights
from patients import HEAD, LENGTH, ROWS, encoder, texts, tokenizer, write_rows

from kdkit import models
from kdkit.data import Examples
from kdkit.doctor import diagnosis
from kdkit.recipes import RECIPES
from kdkit.settings import to_dict
from kdkit.tasks import get_task
from kdkit.training import DataSettings, DistillSettings, ModelSettings
from kdkit.training.task_data import make_forward, predict_logits


@pytest.fixture(scope="module", autouse=True)
def quick_steps():
    with eager_steps():
        yield


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with `teacher`, and `SST-2` as the teacher labels it."""
    root = tmp_path_factory.mktemp("doctor")
    model = models.add_head(encoder(2, 16), HEAD)
    spread_weights(model)
    task = get_task("sst2")
    rows = {split: texts(split, count) for split, count in ROWS.items()}
    encoded = task.encode(
        Examples((sum(rows.values(), []),)), tokenizer(), LENGTH
    )
    logits = predict_logits(make_forward(model), encoded)
    margins = logits[:, 1] - logits[:, 0]
    # Half of the rows are of each class.
    bias = model.layers[-1].weights[-1]
    bias.assign(bias - [0, np.median(margins)])
    labels = (margins > np.median(margins)).astype(int)
    ends = np.cumsum(list(ROWS.values()))[:-1]
    for (split, some), own in zip(
        rows.items(), np.split(labels, ends), strict=True
    ):
        write_rows(root / "SST-2", split, some, own)
    models.save_preset(model, tokenizer(), root / "teacher", LENGTH, HEAD)
    return root


@pytest.fixture(scope="session")
def settings(made):
    """TinyBERT from that teacher to a student of half its size."""
    stages = RECIPES["tinybert"].stages_for(get_task("sst2"))
    return DistillSettings(
        recipe="tinybert",
        data=DataSettings("sst2", str(made), LENGTH, num_buckets=1),
        teacher=str(made / "teacher"),
        student=ModelSettings(
            num_layers=1,
            hidden_dim=8,
            num_heads=2,
            intermediate_dim=16,
            max_sequence_length=16,
            dropout=0.0,
        ),
        stages=tuple(
            # The rates of so few updates are those of random weights.
            dataclasses.replace(
                stage, epochs=1, batch_size=8, learning_rate=5e-2
            )
            for stage in stages
        ),
        jit_compile=False,
    )


@pytest.fixture
def config(tmp_path):
    """Writes settings where --config finds them."""

    def write(settings):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(to_dict(settings)))
        return str(path)

    return write


@pytest.fixture(scope="module")
def load_once():
    """Loading a teacher, and tracing its tokenizer, take seconds."""
    load = diagnosis.load_teachers
    known = {}

    def load_teachers(places, task):
        places = tuple(map(str, places))
        if places not in known:
            known[places] = load(places, task)
        return known[places]

    return load_teachers


@pytest.fixture
def quickly(request, monkeypatch, load_once):
    """The same teacher is loaded once; a step of each stage is not timed."""
    monkeypatch.setattr(diagnosis, "load_teachers", load_once)
    if "timed" not in request.fixturenames:
        monkeypatch.setattr(diagnosis, "time_needed", lambda *unused: None)


@pytest.fixture
def timed():
    """For the tests in which it is."""
