"""Numbers in names do not depend on what else a process created."""

import keras
import pytest
from kit.helpers import batch, bert, distiller

from kdkit.taps import number_later, own_names, tapped


@pytest.fixture(autouse=True)
def later_names():
    yield
    number_later()


def names(model):
    """Those of a model and of all that is in it."""
    return [layer.name for layer in (model, *model._flatten_layers())]


def test_names_count_from_nothing_in_a_block_and_go_on_later():
    def name():
        return keras.layers.Dense(1).name

    name()
    with own_names():
        assert [name(), name()] == ["dense", "dense_1"]
    assert [name(), name()] == ["dense_30000", "dense_30001"]
    number_later()
    assert name() == "dense_30000"


def test_models_and_trainers_have_the_same_names_again():
    found = []
    for _ in range(2):
        with own_names():
            models = bert(2, 12, seed=1), bert(1, 8, seed=2)
        number_later()
        found.append(names(models[0]) + names(distiller(*models)))
        bert(num_layers=3)
        # What is built on a model of another process has other names.
        run = tapped(models[0], ["hidden_states", "attention_logits"])
        assert len(run(batch())["hidden_states"]) == 3
    assert found[0] == found[1]
    assert len(set(found[0])) > 10
