"""A teacher that is always right, rows that it labelled, and the doctor."""

import dataclasses
import json
import shutil

import keras
import numpy as np
import pytest
from kit.helpers import eager_steps, save_classifier, spread_weights
from kit.tasks import WORDS
from patients import LENGTH, ROWS, TASK, encoder, tokenizer

from kdkit import models
from kdkit.config.data import TaskData
from kdkit.config.model import Sizes
from kdkit.config.runs import TaskConfig, Training
from kdkit.data import Examples
from kdkit.doctor import OUTCOMES
from kdkit.recipes import RECIPES
from kdkit.runs.classifiers import TaskKind
from kdkit.runs.directory import with_values
from kdkit.runs.untrained import examined


def texts(split, count):
    """Different texts in every split."""
    first = WORDS[list(ROWS).index(split)]
    generator = np.random.default_rng(0)
    found = {}
    while len(found) < count:
        found[" ".join([first, *generator.choice(WORDS, 5)])] = None
    return list(found)


class Table:
    """A folder with the splits of SST-2, which a test may change."""

    def __init__(self, root):
        self.root = root
        self.place = {"data.data_dir": str(root)}

    def _file(self, split):
        return self.root / "SST-2" / f"{split}.tsv"

    def rows(self, split):
        lines = self._file(split).read_text().splitlines()[1:]
        cells = [line.split("\t") for line in lines]
        return [cell[0] for cell in cells], [int(cell[1]) for cell in cells]

    def write(self, split, rows, labels):
        cells = ("sentence", "label"), *zip(rows, labels, strict=True)
        if split == "test":
            cells = ("index", "sentence"), *enumerate(rows)
        self._file(split).parent.mkdir(exist_ok=True)
        self._file(split).write_text(
            "".join(f"{one}\t{other}\n" for one, other in cells)
        )


class Told:
    """The findings of an examination, by outcome and by check."""

    def __init__(self, findings):
        self._findings = findings

    def checks(self, outcome):
        return {one.check for one in self._findings if one.outcome == outcome}

    def __getitem__(self, check):
        """The worst finding of a check."""
        findings = [one for one in self._findings if one.check == check]
        return max(findings, key=lambda one: OUTCOMES.index(one.outcome))


@pytest.fixture(scope="module", autouse=True)
def _quick_steps():
    with eager_steps():
        yield


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with `teacher`, and `SST-2` as the teacher labels it."""
    root = tmp_path_factory.mktemp("doctor")
    model = models.add_head(encoder(2, 16), TASK.head)
    spread_weights(model)
    rows = {split: texts(split, count) for split, count in ROWS.items()}
    encoded = TASK.encode(
        Examples((sum(rows.values(), []),)), tokenizer(), LENGTH
    )
    inputs = encoded.inputs(np.arange(len(encoded)), LENGTH)
    logits = keras.ops.convert_to_numpy(model(inputs))
    margins = logits[:, 1] - logits[:, 0]
    # Half of the rows are of each class.
    bias = model.layers[-1].weights[-1]
    bias.assign(bias - [0, np.median(margins)])
    labels = (margins > np.median(margins)).astype(int)
    ends = np.cumsum(list(ROWS.values()))[:-1]
    for (split, some), own in zip(
        rows.items(), np.split(labels, ends), strict=True
    ):
        Table(root).write(split, some, own)
    save_classifier(model, tokenizer(), root / "teacher", LENGTH, TASK.head)
    return root


@pytest.fixture
def table(made, tmp_path):
    """A copy of the rows."""
    shutil.copytree(made / "SST-2", tmp_path / "data" / "SST-2")
    return Table(tmp_path / "data")


@pytest.fixture(scope="session")
def settings(made):
    """TinyBERT from that teacher to a student of half its size."""
    return TaskConfig(
        recipe="tinybert",
        data=TaskData(
            task="sst2",
            data_dir=str(made),
            sequence_length=LENGTH,
            num_buckets=1,
        ),
        teacher=(str(made / "teacher"),),
        student=Sizes(
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
            for stage in RECIPES["tinybert"].stages_for(TASK)
        ),
        training=Training(jit_compile=False),
    )


@pytest.fixture
def changed(settings):
    """A function of values by path and fields: that config with them."""

    def change(values=None, **fields):
        return with_values(settings.replace(**fields), values or {}, {})

    return change


@pytest.fixture
def config(settings, tmp_path):
    """The config in a file."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(settings.model_dump(mode="json")))
    return path


@pytest.fixture(scope="module")
def _load_once():
    """Loading a teacher, and tracing its tokenizer, take seconds."""
    load, known = TaskKind.teacher, {}

    def load_teacher(kind, place):
        if place not in known:
            known[place] = load(kind, place)
        return known[place]

    return load_teacher


@pytest.fixture
def diagnose(tmp_path, monkeypatch, _load_once):
    """A function of a config: the doctor's findings."""
    monkeypatch.setattr(TaskKind, "teacher", _load_once)

    def examine(config):
        findings = Told(examined(config, tmp_path / "run"))
        assert not (tmp_path / "run").exists()
        return findings

    return examine
