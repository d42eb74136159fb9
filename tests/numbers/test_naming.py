"""Numbers in names do not depend on what else a process created."""

import keras
import pytest
from kit.helpers import bert, distiller

from kdkit.taps import number_later, own_names, tapped


@pytest.fixture(autouse=True)
def counters_of_other_tests():
    yield
    number_later()


def names(model):
    """Those of a model and of all that is in it."""
    return [layer.name for layer in (model, *model._flatten_layers())]


def test_names_count_from_nothing_in_a_block_and_go_on_later():
    keras.layers.Dense(1)
    with own_names():
        assert keras.layers.Dense(1).name == "dense"
        assert keras.layers.Dense(1).name == "dense_1"
    assert keras.layers.Dense(1).name == "dense_30000"
    assert keras.layers.Dense(1).name == "dense_30001"
    number_later()
    assert keras.layers.Dense(1).name == "dense_30000"


def test_a_model_has_the_same_names_whatever_was_made_before():
    found = []
    for _ in range(2):
        with own_names():
            found.append(names(bert()))
        bert(num_layers=3)
    assert found[0] == found[1]
    assert len(set(found[0])) > 10


def test_what_is_built_on_a_model_later_has_other_names():
    with own_names():
        model = bert()
    for _ in range(2):
        number_later()
        with own_names():
            bert()  # another model has its names
        run = tapped(model, ["hidden_states", "attention_logits"])
        batch = {name: keras.ops.ones((1, 3), "int32") for name in model.input}
        assert len(run(batch)["hidden_states"]) == 3


def test_a_trainer_is_named_by_what_is_made_with_it():
    found = []
    for _ in range(2):
        with own_names():
            models = bert(2, 12, seed=1), bert(1, 8, seed=2)
        number_later()
        found.append(names(distiller(*models)))
    assert found[0] == found[1]
