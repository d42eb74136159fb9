"""An encoder-decoder that reads token by token predicts as on whole texts."""

import keras
import numpy as np
import pytest
from kit.helpers import to_numpy, with_random_weights

from kdkit.generation import Seq2SeqStep
from kdkit.models import MassBackbone, MassSeq2SeqLM

BATCH, SOURCE, LENGTH, ROOM = 3, 6, 5, 7


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    made = MassSeq2SeqLM(
        MassBackbone(20, 1, 2, 2, 8, 12, max_sequence_length=8)
    )
    return with_random_weights(made)


@pytest.fixture
def batch():
    rng = np.random.default_rng(1)
    mask = np.ones((BATCH, SOURCE), "int32")
    mask[1, 4:] = 0
    return {
        "encoder_token_ids": rng.integers(4, 20, (BATCH, SOURCE)),
        "encoder_padding_mask": mask,
        "decoder_token_ids": rng.integers(4, 20, (BATCH, LENGTH)),
        "decoder_padding_mask": np.ones((BATCH, LENGTH), "int32"),
        "decoder_positions": np.tile(np.arange(LENGTH), (BATCH, 1)),
    }


@pytest.mark.parametrize("filling", [0.0, 1e6])
def test_every_position_has_the_logits_of_the_whole_target(
    model, batch, filling
):
    step = Seq2SeqStep(model, SOURCE, ROOM)
    mask = batch["encoder_padding_mask"]
    cache = to_numpy(step.encode(batch["encoder_token_ids"], mask))
    assert set(cache) == {name for pair in step.source_names for name in pair}
    for names in step.cache_names:
        for name in names:
            cache[name] = np.full(
                (BATCH, *step.cache_shape), filling, "float32"
            )
    logits = []
    for position, tokens in enumerate(batch["decoder_token_ids"].T):
        output = to_numpy(step.step(tokens, position, mask, cache))
        for index, (keys, values) in enumerate(step.cache_names):
            cache[keys][:, :, position] = output["new_keys"][index]
            cache[values][:, :, position] = output["new_values"][index]
        logits.append(output["logits"])
    np.testing.assert_allclose(
        np.stack(logits, axis=1), model(batch), atol=1e-5
    )
