"""A model's architecture: its name, its sizes, its token embeddings."""

import keras

from kdkit.models.bilstm import EMBEDDING_LAYER, LSTM_LAYER
from kdkit.models.families import family_of
from kdkit.models.heads import backbone_of, named_layer
from kdkit.models.mass import MassBackbone
from kdkit.models.static import is_static_embedder
from kdkit.weights import count_parameters

ENCODER_SIZES = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")
MASS_SIZES = ("encoder_num_layers", "decoder_num_layers", *ENCODER_SIZES[1:])


def architecture(model) -> dict:
    """Returns the name of a model's architecture and its sizes.

    Args:
        model: `keras.Model`, a classifier, a language model or a backbone.

    Returns:
        A dict with `name`, such as `"BERT 4×312"` or `"MASS 6+4×512"`,
        `parameters`, and the sizes that the model has: `num_layers` (or
        `encoder_num_layers` and `decoder_num_layers`), `hidden_dim`,
        `num_heads` and `intermediate_dim`.
    """
    title, sizes = type(model).__name__, {}
    backbone, lstm = backbone_of(model), named_layer(model, LSTM_LAYER)
    family = family_of(backbone)
    if family is not None:
        title = family.title
        sizes = {name: family.size(backbone, name) for name in ENCODER_SIZES}
    elif isinstance(backbone, MassBackbone):
        title = "MASS"
        sizes = {name: getattr(backbone, name) for name in MASS_SIZES}
    elif is_static_embedder(model):
        title = f"static {model.output.shape[-1]}"
    elif lstm is not None:
        title = "BiLSTM"
        # The width of both directions together, as in the papers' tables.
        width = 2 * lstm.forward_layer.units
        sizes = {"num_layers": 1, "hidden_dim": width}
    if sizes:
        depths = [str(sizes[one]) for one in sizes if one.endswith("layers")]
        title = f"{title} {'+'.join(depths)}×{sizes['hidden_dim']}"
    return {"name": title, "parameters": count_parameters(model), **sizes}


def num_positions(model) -> int | None:
    """Returns a model's maximum sequence length, `None` if there is none.

    Args:
        model: `keras.Model`, a classifier or an encoder.
    """
    backbone = backbone_of(model)
    family = family_of(backbone)
    if family is not None:
        return family.num_positions(backbone)
    return getattr(backbone, "max_sequence_length", None)


def padding_row(model, pad_token_id: int | None) -> tuple[str, int] | None:
    """Returns the position of the padding token's embedding.

    Args:
        model: `keras.Model` to train.
        pad_token_id: int or `None`.

    Returns:
        Tuple of the path of the embeddings and the row, or `None` for a model
        without known token embeddings or without a padding token.
    """
    embedding = _token_embedding(model)
    if embedding is None or pad_token_id is None:
        return None
    return embedding.path, pad_token_id


def token_embeddings(model):
    """Returns a model's token embeddings as a NumPy array.

    Args:
        model: `keras.Model` with an encoder of a known family.
    """
    return keras.ops.convert_to_numpy(_token_embedding(model))


def _token_embedding(model):
    """Returns the variable of the token embeddings, `None` if unknown."""
    backbone = backbone_of(model)
    family = family_of(backbone)
    if family is not None:
        return family.token_embedding(backbone).embeddings
    if named_layer(model, LSTM_LAYER) is not None:
        return model.get_layer(EMBEDDING_LAYER).embeddings
    return None
