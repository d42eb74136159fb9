"""How many numbers of a model are learned."""

TABLE = "candidates"  # a layer that says which classes a token can have


def count_parameters(model) -> int:
    """Returns how many numbers of a model are learned, or were.

    A table of the classes that each token can have is data, and none of them.

    Args:
        model: `keras.Model`. A classifier, a language model or a backbone.
    """
    parts = [model, *getattr(model, "layers", ())]
    tables = [
        layer
        for part in parts
        for layer in getattr(part, "layers", ())
        if layer.name == TABLE
    ]
    return model.count_params() - sum(table.count_params() for table in tables)
