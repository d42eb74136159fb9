"""The models that a run leaves behind."""

import keras

from kdkit import models
from kdkit.files import staged
from kdkit.models import Head
from kdkit.taps import own_names
from kdkit.training.run_directory import RunDirectory


def keep_model(
    run: RunDirectory, arm, model, tokenizer, sequence_length, head: Head
) -> None:
    """Leaves an arm's model in its run directory, unless it is there.

    An encoder with a head becomes the preset directory `RUN/ARM/`, any other
    model the file `RUN/ARM.keras` with its tokenizer in `RUN/tokenizer/` and
    the names of its classes in `RUN/labels.json`.

    Args:
        run: `RunDirectory`.
        arm: string.
        model: the classifier.
        tokenizer: a keras-hub tokenizer.
        sequence_length: int. Length that the preprocessor pads and cuts to.
        head: `kdkit.models.Head` of the task.
    """
    if run.is_read_only:
        return
    with own_names():
        model = models.in_policy(model, "float32")
    if models.has_encoder(model):
        path = run.path / arm
        if not path.exists():
            size = models.stored_size(model)
            with staged(path, size) as partial, own_names():
                models.save_preset(
                    model, tokenizer, partial, sequence_length, head
                )
        return
    directory = run.path / models.TOKENIZER_DIRECTORY
    if not directory.exists():
        with staged(directory) as partial:
            models.save_tokenizer(tokenizer, partial)
    models.save_labels(head, run.path / models.LABELS_FILE)
    file = run.path / f"{arm}.keras"
    if not file.exists():
        # A copy, since what is saved of a compiled model has its optimiser.
        with own_names():
            copy = keras.models.clone_model(model)
        copy.set_weights(model.get_weights())
        with staged(file, models.stored_size(copy)) as partial:
            copy.save(partial)
            models.forget_process(partial)
