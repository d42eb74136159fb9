import numpy as np

from kdkit.export import LiteRTModel


def test_litert_model_follows_changing_shapes(
    bert, exported, make_batch, logits
):
    model = LiteRTModel(exported["fp32"].file)
    assert model.sequence_length is None
    assert model.batch_size is None
    for shape in [(2, 8), (5, 17), (5, 17), (1, 8)]:
        batch = make_batch(*shape, seed=sum(shape))
        np.testing.assert_allclose(model(batch), logits(bert, batch), atol=1e-4)


def test_litert_model_pads_to_the_fixed_length(
    bert, exported, make_batch, logits
):
    model = LiteRTModel(exported["fixed"].file)
    assert model.sequence_length == 24
    batch = make_batch(3, 10)
    np.testing.assert_allclose(model(batch), logits(bert, batch), atol=1e-4)


def test_litert_model_runs_rows_one_by_one_where_it_must(
    lstm, exported, make_batch, logits
):
    model = LiteRTModel(exported["lstm"].file, threads=2)
    assert model.batch_size == 1
    assert model.input_names == ("token_ids", "padding_mask")
    batch = make_batch(4, 9)
    np.testing.assert_allclose(model(batch), logits(lstm, batch), atol=1e-4)
