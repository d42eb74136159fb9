"""The contract of saved models: loaded as they were, with or without kdkit."""

import dataclasses
import json
import time
from collections.abc import Callable

import keras
import keras_hub
import numpy as np
import pytest
from kit import encoders
from kit.encoders import MASKED_LMS, SENTENCES, encoder, tokenizer
from kit.foreign import foreign_model, save_foreign
from kit.helpers import (
    batch,
    decoder,
    inputs_of,
    large_except,
    run_without_kdkit,
)

from kdkit import models
from kdkit.models import DenseSettings, Head, Pooling

LENGTH = 6
TAGS = Head("tokens", 3, ("x", "y", "z"), candidates={"good": (0, 2)})
CHOICES = Head("multiple_choice", 2)
DENSE = (DenseSettings(5, activation="tanh"), DenseSettings(4))


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of model: how it is made and loaded.

    Args:
        make: function of nothing or of a path, to a model and its tokenizer.
        load: function from the path to a `LoadedModel`.
        alone: string. keras-hub's class that loads it, empty for a backbone.
        head: the head of a classifier, if it is none of texts.
    """

    make: Callable
    load: Callable
    alone: str = ""
    head: Head | None = None


def of_family(family, kind=None, num_classes=3):
    tokens = tokenizer(family)
    model = encoder(
        family, num_classes, vocabulary_size=tokens.vocabulary_size()
    )
    return (kind(model) if kind else model), tokens


def with_head(head):
    backbone, tokens = of_family("bert", None, None)
    return models.add_head(backbone, head, tokens), tokens


def read_with(family, head, load, **options):
    """A model with other settings than keras-hub's, from a checkpoint."""

    def make(path):
        model = foreign_model(family, head, **options)
        path.mkdir()
        loaded = load(save_foreign(model, family, path))
        return loaded.model, loaded.tokenizer

    return make


def classifier(make, head=None, alone="TextClassifier"):
    return Kind(
        make,
        lambda path: models.load_classifier(path, head or 3),
        "" if head else alone,
        head,
    )


def language_model(make, alone):
    return Kind(make, models.load_language_model, alone)


def embedder(family, pooling, alone=""):
    return Kind(
        lambda: of_family(
            family, lambda model: models.make_embedder(model, pooling), None
        ),
        models.load_embedder,
        alone,
    )


def causal(family):
    tokens = models.train_byte_pairs(SENTENCES * 9, 262, family)
    size = tokens.vocabulary_size()
    return decoder(2, family=family, vocabulary_size=size), tokens


def static():
    tokens = models.word_piece_tokenizer(encoders.WORD_PIECES, lowercase=True)
    model = models.make_static_embedder(tokens, 6)
    table = np.random.default_rng(0).normal(size=(tokens.vocabulary_size(), 6))
    models.set_token_vectors(model, table, tokens, sif=None)
    return model, tokens


RELU = {"hidden_act": "relu", "layer_norm_eps": 0.1}
KINDS = {
    **{
        f"{family} classifier": classifier(
            lambda family=family: of_family(family),
            alone="" if family == "electra" else "TextClassifier",
        )
        for family in encoders.ENCODERS
    },
    **{
        f"{family} masked": language_model(
            lambda family=family: of_family(
                family, models.language_model, None
            ),
            "MaskedLM",
        )
        for family in MASKED_LMS
    },
    **{
        family: language_model(lambda family=family: causal(family), "CausalLM")
        for family in encoders.DECODERS
    },
    "tags": classifier(lambda: with_head(TAGS), TAGS),
    "choices": classifier(lambda: with_head(CHOICES), CHOICES),
    "relu": classifier(
        read_with(
            "bert",
            "ForSequenceClassification",
            lambda path: models.load_classifier(path, 3),
            num_labels=3,
            **RELU,
        )
    ),
    "relu masked": language_model(
        read_with("albert", "ForMaskedLM", models.load_masked_lm, **RELU),
        "MaskedLM",
    ),
    "embedder": embedder("bert", Pooling("mean"), "TextEmbedder"),
    "max embedder": embedder("bert", Pooling("max", False)),
    "cls embedder": embedder("distil_bert", Pooling("cls")),
    "dense embedder": embedder("bert", Pooling(dense=DENSE)),
    "static": Kind(
        static,
        models.load_embedder,
    ),
}
QUICK = (
    *("bert classifier", "albert classifier", "roberta classifier"),
    *("deberta_v3 classifier", "electra classifier", "roberta masked"),
    *("deberta_v3 masked", "gpt2", "llama3", "qwen3", "tags", "relu"),
    *("relu masked", "embedder", "cls embedder", "dense embedder", "static"),
)


def outputs(model):
    """The last of a model's outputs, on one batch."""
    return np.asarray(keras.tree.flatten(model(inputs_of(model)))[-1])


def ids_of(tokens):
    return [[*map(int, row)] for row in tokens(SENTENCES)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A function that returns a kind's model and tokenizer, and a directory."""
    made = {}

    def save(name):
        if name not in made:
            path = tmp_path_factory.mktemp("saved")
            kind = KINDS[name]
            of_path = name.startswith("relu")
            model, tokens = kind.make(*[path / "from"] * of_path)
            loaded = models.LoadedModel(
                model, tokens, sequence_length=LENGTH, head=kind.head
            )
            models.save_model(loaded, path / "model")
            made[name] = model, tokens, path / "model"
        return made[name]

    return save


@pytest.mark.parametrize("name", large_except(KINDS, *QUICK))
def test_a_loaded_model_is_the_saved_one(name, saved):
    model, tokens, path = saved(name)
    loaded = KINDS[name].load(path)
    assert loaded.has_trained_head
    assert loaded.sequence_length == LENGTH
    for one in (loaded.model, models.load_model(path).model):
        assert type(one).__name__ == type(model).__name__
        np.testing.assert_allclose(outputs(one), outputs(model), atol=1e-6)
    for one in (loaded.tokenizer, models.load_tokenizer(path)):
        assert ids_of(one) == ids_of(tokens)
    if "embedder" in name or name == "static":
        assert models.pooling_of(loaded.model) == models.pooling_of(model)


ALONE = [name for name in KINDS if KINDS[name].alone]


@pytest.mark.parametrize(
    "name",
    large_except(
        ALONE,
        *("bert classifier", "relu", "relu masked", "roberta masked"),
        *("gpt2", "embedder"),
    ),
)
def test_keras_hub_alone_loads_it_too(name, saved):
    """Other activations are kdkit's, in kdkit.json; the weights are there."""
    model, tokens, path = saved(name)
    cls = getattr(keras_hub.models, KINDS[name].alone)
    loaded = cls.from_preset(str(path))
    preprocessor, loaded.preprocessor = loaded.preprocessor, None
    for file in path.glob("*.json"):
        assert file.name[:5] == "kdkit" or "kdkit" not in file.read_text()
    for ours, theirs in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if name.startswith("relu"):
        assert np.abs(outputs(loaded) - outputs(model)).max() > 1e-3
        settings = json.loads((path / "kdkit.json").read_text())
        assert settings["activation"] == "relu"
        readme = (path / "README.md").read_text()
        assert "activation=relu" in readme
        assert len(readme.splitlines()) <= 5
    else:
        np.testing.assert_allclose(outputs(loaded), outputs(model), atol=1e-5)
        assert ids_of(preprocessor.tokenizer) == ids_of(tokens)


PROGRAM = """
import json, keras, keras_hub, numpy as np
path, batch = {path!r}, dict(np.load('batch.npz'))
batch = {{k: keras.ops.convert_to_tensor(batch[k]) for k in batch}}
model = keras_hub.models.Backbone.from_preset(path)
head = keras.models.load_model(f'{{path}}/head.keras')
states = model({{name: batch[name] for name in model.input}})
states = states if isinstance(states, dict) else {{'sequence_output': states}}
states = {{**batch, **states}}
logits = head({{name: states[name] for name in head.input}})
np.save('logits.npy', logits)
"""


@pytest.mark.large
@pytest.mark.parametrize(
    "name", ["electra classifier", "tags", "choices", "cls embedder"]
)
def test_it_loads_where_kdkit_is_not_installed(name, saved, tmp_path):
    """What is not keras-hub's is a Keras file next to the encoder."""
    model, _, path = saved(name)
    np.savez(tmp_path / "batch.npz", **batch())
    program = PROGRAM.format(path=str(path))
    run_without_kdkit(program, tmp_path)
    found = np.load(tmp_path / "logits.npy")
    np.testing.assert_allclose(found, outputs(model), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "head"),
    large_except(
        [("bert classifier", 3), ("tags", TAGS), ("relu", 3)], ("relu", 3)
    ),
)
def test_a_keras_file_has_the_whole_model(name, head, saved, tmp_path):
    model, _, _ = saved(name)
    model.save(tmp_path / "model.keras")
    loaded = models.load_classifier(tmp_path / "model.keras", head)
    np.testing.assert_allclose(outputs(loaded.model), outputs(model), atol=1e-6)


@pytest.mark.parametrize("how", ["get_config", "in_policy"])
@pytest.mark.parametrize("name", ["relu", "relu masked"])
def test_copies_have_the_activation(name, how, saved):
    model, _, _ = saved(name)
    if how == "get_config":
        copy = type(model).from_config(model.get_config())
    else:
        half = models.in_policy(model, "mixed_bfloat16")
        copy = models.in_policy(half, "float32")
    copy.set_weights(model.get_weights())
    np.testing.assert_array_equal(outputs(copy), outputs(model))


def test_other_uses_of_what_is_saved(saved):
    """An encoder in a classifier, in another model, or without its head."""
    model, _, path = saved("embedder")
    assert not models.load_classifier(path, 2).has_trained_head
    models.load_embedder(path, "mean")
    with pytest.raises(ValueError, match="another pooling"):
        models.load_embedder(path, Pooling("mean", False))
    model, _, path = saved("bert classifier")
    loaded = models.load_masked_lm(path)
    assert not loaded.has_trained_head
    backbone, _ = models.load_encoder(path)
    for one in (loaded.model.backbone, backbone):
        np.testing.assert_array_equal(outputs(one), outputs(model.backbone))
    model, _, path = saved("relu")
    np.testing.assert_array_equal(
        outputs(models.load_encoder(path)[0]), outputs(model.backbone)
    )
    with pytest.raises(ValueError, match="no masked tokens"):
        models.load_masked_lm(saved("gpt2")[2])


def test_an_encoder_gets_the_given_pooling(tmp_path):
    models.save_model(
        models.LoadedModel(*of_family("bert", None, None)), tmp_path
    )
    loaded = models.load_embedder(tmp_path, "max")
    assert models.pooling_of(loaded.model) == Pooling("max")


def test_a_preset_saved_over_another_has_its_own_settings(saved, tmp_path):
    for name in ("relu", "bert classifier"):
        model, tokens, _ = saved(name)
        models.save_model(models.LoadedModel(model.backbone, tokens), tmp_path)
    loaded, _ = models.load_encoder(tmp_path)
    np.testing.assert_array_equal(outputs(loaded), outputs(model.backbone))


def test_a_compiled_model_of_a_user_loads_without_a_warning(tmp_path):
    """keras-hub saves its optimizer, which kdkit does not need."""
    model, tokens = of_family("bert")
    model.preprocessor = type(model).preprocessor_cls(tokens, sequence_length=8)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.optimizer.build(model.trainable_variables)
    model.save_to_preset(str(tmp_path / "teacher"))
    loaded = models.load_classifier(tmp_path / "teacher", 3)
    np.testing.assert_array_equal(outputs(loaded.model), outputs(model))


def test_equal_models_are_equal_files(tmp_path):
    """Whatever process saved them, and when: the teacher cache compares."""
    config = models.BilstmConfig(
        units=3, embedding_dim=5, intermediate_dim=7, vocabulary_size=20
    )
    made, files = [], []
    for number in range(2):
        keras.backend.clear_session()  # names count up within a process
        made.append(models.student(config, num_classes=2))
        made[-1].set_weights(made[0].get_weights())
        models.save_model(
            models.LoadedModel(made[-1], None), tmp_path / str(number)
        )
        files.append(tmp_path / str(number) / "model.keras")
        time.sleep(1 - number)  # the resolution of a file's date
    assert files[0].read_bytes() == files[1].read_bytes()
    loaded = models.load_classifier(files[0], 2).model
    np.testing.assert_array_equal(outputs(loaded), outputs(made[0]))
