"""The inputs that a model takes from a batch."""


def select_inputs(model, x):
    """Returns only the entries of a dict that the model has inputs for.

    So a teacher with segments and a student without them can share one batch.
    Keras itself would match the inputs by their order.
    """
    # Models without a graph have no `input`, and those of one tensor no names.
    names = getattr(model, "input", None)
    if not isinstance(names, dict) or not isinstance(x, dict):
        return x
    return {name: x[name] for name in names}
