import shutil

import numpy as np
import pytest
import tensorflow as tf

from kdkit.errors import UsageError
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


def test_litert_model_refuses_batches_beyond_the_fixed_length(
    exported, make_batch
):
    model = LiteRTModel(exported["fixed"].file)
    with pytest.raises(UsageError, match="longer than the 24 tokens"):
        model(make_batch(1, 25))


def test_litert_model_runs_rows_one_by_one_where_it_must(
    lstm, exported, make_batch, logits
):
    model = LiteRTModel(exported["lstm"].file, threads=2)
    assert model.batch_size == 1
    assert model.input_names == ("token_ids", "padding_mask")
    batch = make_batch(4, 9)
    np.testing.assert_allclose(model(batch), logits(lstm, batch), atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token_ids": np.ones((2, 5))}, "must contain integers.*float64"),
        ({"token_ids": np.ones((2, 4), "int32")}, "one shape"),
        ({"token_ids": np.ones(5, "int32")}, "one shape"),
    ],
)
def test_litert_model_refuses_batches_that_do_not_fit(
    exported, change, message, make_batch
):
    model = LiteRTModel(exported["fp32"].file)
    with pytest.raises(UsageError, match=message):
        model(make_batch(2, 5) | change)


def test_litert_model_names_all_problems_of_a_batch(exported):
    model = LiteRTModel(exported["fp32"].file)
    with pytest.raises(UsageError) as error:
        model({"token_ids": np.ones((2, 5))})
    for problem in ("'segment_ids' is missing", "'padding_mask'", "float64"):
        assert problem in str(error.value)


def test_litert_model_refuses_empty_batches(exported, make_batch):
    model = LiteRTModel(exported["fp32"].file)
    with pytest.raises(UsageError, match="empty"):
        model({name: array[:0] for name, array in make_batch(2, 5).items()})


def test_litert_model_refuses_paths_that_are_no_files(exported, tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        LiteRTModel(tmp_path / "missing.tflite")
    other = shutil.copy(exported["fp32"].file, tmp_path / "model.bin")
    with pytest.raises(UsageError, match="ends in '.tflite'"):
        LiteRTModel(other)
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(UsageError, match="interpreter cannot run"):
        LiteRTModel(broken)


def test_litert_model_refuses_fewer_threads_than_one(exported):
    with pytest.raises(UsageError, match="threads=0"):
        LiteRTModel(exported["fp32"].file, threads=0)


def test_litert_model_refuses_files_of_other_models(tmp_path):
    signature = [tf.TensorSpec((3, 5), tf.float32, "image")]
    function = tf.function(lambda image: image * 2.0, signature)
    module = tf.Module()
    module.function = function
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function.get_concrete_function()], module
    )
    path = tmp_path / "other.tflite"
    path.write_bytes(converter.convert())
    with pytest.raises(UsageError, match="'image' has the fixed batch size 3"):
        LiteRTModel(path)
