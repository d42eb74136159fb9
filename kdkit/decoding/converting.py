"""Functions of a Keras model to the signatures of one LiteRT file."""

import tempfile
from collections.abc import Callable
from collections.abc import Mapping

import keras

from kdkit.backends import need_tensorflow
from kdkit.backends import tf
from kdkit.export.options import converter_options


def converted(
    model, signatures: Mapping[str, tuple[Callable, dict]], precision: str
) -> bytes:
    """Returns the bytes of a LiteRT file.

    Args:
        model: `keras.Model`, or a layer. Whose weights the functions use.
        signatures: mapping from a signature's name to a function of one dict of
            tensors and a dict from each tensor's name to its
            `tf.TensorSpec`. The first is what the file runs unless asked
            otherwise.
        precision: string. As in `kdkit.export.to_litert`.
    """
    need_tensorflow("Export to LiteRT")
    archive = keras.export.ExportArchive()
    archive.track(model)
    for name, (run, specs) in signatures.items():
        archive.add_endpoint(name, run, input_signature=[specs])
    with tempfile.TemporaryDirectory() as folder:
        archive.write_out(folder, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=[*signatures]
        )
        options = converter_options(precision)
        for name, value in options.pop("target_spec").items():
            setattr(converter.target_spec, name, value)
        for name, value in options.items():
            setattr(converter, name, value)
        return converter.convert()
