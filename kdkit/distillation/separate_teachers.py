"""Teachers with a vocabulary of their own, whose inputs have own names."""

import keras
import keras_hub

from kdkit.errors import UsageError
from kdkit.models.tokenizer_kinds import require_same_ids


class SeparateTeacher(keras.Model):
    """A teacher with a vocabulary of its own, whose inputs have a prefix."""

    def __init__(self, teacher, prefix):
        inputs = {
            name: keras.Input(
                batch_shape=tensor.shape,
                dtype=tensor.dtype,
                name=f"{prefix}{name}",
            )
            for name, tensor in teacher.input.items()
        }
        super().__init__(
            {f"{prefix}{name}": tensor for name, tensor in inputs.items()},
            teacher(inputs),
            name=teacher.name,
        )
        self.prefix = prefix
        self.original = teacher


def with_own_inputs(teacher, student, objectives):
    """Returns teachers, with inputs of their own if their ids are others."""
    teachers = keras.tree.flatten(teacher)
    found = []
    for number, model in enumerate(teachers, start=1):
        try:
            tokenizers = [
                getattr(getattr(one, "preprocessor", None), "tokenizer", None)
                for one in (model, student)
            ]
            if None not in tokenizers:
                require_same_ids(*tokenizers)
        except UsageError:
            # Classifiers of different vocabularies can compare their logits.
            compares_logits = all(one.tap == "logits" for one in objectives)
            if not (
                compares_logits and all(map(_is_classifier, (model, student)))
            ):
                raise
            prefix = f"teacher_{number}_" if len(teachers) > 1 else "teacher_"
            found.append(SeparateTeacher(model, prefix))
        else:
            found.append(model)
    return found if isinstance(teacher, list | tuple) else found[0]


def _is_classifier(model):
    return isinstance(model, keras_hub.models.TextClassifier)
