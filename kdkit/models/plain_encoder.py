"""Presets of encoders that keras-hub has no classifier for: ELECTRA.

`keras_hub.models.TextClassifier.from_preset` looks for the classifier of the
backbone's class, and knows none for `ElectraBackbone`. It takes classifiers
around a plain Keras model as they are. So the backbone is saved as the only
layer of a plain model, and taken out of it after loading.
"""

import keras
import keras_hub

from kdkit.reading import read_json


def needs_plain_encoder(classifier) -> bool:
    """Whether keras-hub has no classifier for the backbone's class."""
    return not isinstance(classifier.backbone, type(classifier).backbone_cls)


def with_plain_encoder(classifier):
    """Returns the classifier around a plain model around its backbone."""
    backbone = classifier.backbone
    inputs = {
        name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
        for name, tensor in backbone.input.items()
    }
    return _around(classifier, keras.Model(inputs, backbone(inputs)))


def without_plain_encoder(classifier):
    """Returns the classifier around the backbone in its plain model."""
    if isinstance(classifier.backbone, keras_hub.models.Backbone):
        return classifier
    (backbone,) = (
        layer
        for layer in classifier.backbone.layers
        if isinstance(layer, keras_hub.models.Backbone)
    )
    return _around(classifier, backbone)


def holds_plain_encoder(path) -> bool:
    """Whether the preset in a directory was saved in this way."""
    config = read_json(path / "config.json", "the config of a model")
    return config.get("registered_name") == "Functional"


def _around(classifier, encoder):
    """The classifier around another object for the same encoder."""
    config = {**classifier.get_config(), "backbone": encoder}
    other = type(classifier).from_config(config)
    other.set_weights(classifier.get_weights())
    return other
