"""The Distiller: a Keras model that trains a student against a teacher."""

import copy
import dataclasses

import keras
from keras import ops

from kdkit.backends import validate_chunk_size
from kdkit.distillation.binding import (
    as_tuple,
    label_count,
    label_term,
    mean_label_loss,
    require_labels,
    spread_label_weights,
    sum_over_replicas,
)
from kdkit.distillation.checks import Checks, require_own_weights
from kdkit.distillation.objective import Objective
from kdkit.distillation.separate_teachers import with_own_inputs
from kdkit.distillation.strings import Texts
from kdkit.distillation.terms import Teachers, Terms, TotalLoss, both_taps
from kdkit.distillation.weights import label_weights
from kdkit.errors import UsageError
from kdkit.losses.base import safe_divide
from kdkit.steps import Step
from kdkit.taps import (
    TEACHER_OUTPUTS,
    ModelShape,
    describe,
    find_backbone,
    output_structure,
    select_inputs,
    tapped,
)


class Comparison:
    """The parts of a `Distiller` that Keras must neither track nor save.

    Args:
        terms: `Terms`.
        teachers: `Teachers`.
        student: `keras.Model`.
        student_shape: `kdkit.taps.ModelShape` of the student.
        chunk_size: int or `None`, as in `kdkit.Distiller`.
        total: `TotalLoss`.
    """

    def __init__(
        self, terms, teachers, student, student_shape, chunk_size, total
    ):
        validate_chunk_size(chunk_size)
        self.terms = terms
        self.teachers = teachers
        self.chunk_size = chunk_size
        self.total = total
        self.student_shape = student_shape
        head = [] if student_shape.num_classes is None else ["logits"]
        self._output_structure = output_structure(student)
        self.run_student = tapped(
            student,
            [*head, *terms.student_taps],
            factor_logits=self.is_in_chunks,
        )

    @property
    def is_in_chunks(self) -> bool:
        """Whether logits are computed in chunks of positions."""
        return self.chunk_size is not None

    def attach(self, teacher) -> None:
        """Sets the teachers' models, as `Teachers.attach` does."""
        self.teachers.attach(teacher, self.is_in_chunks)

    def as_output(self, logits):
        """Returns logits in a dict or list if the student's output is one.

        Args:
            logits: tensor, alone or in such a structure, or `None`.
        """
        if logits is None:
            return None
        output = self._output_structure
        if not isinstance(output, dict | list | tuple):
            return logits
        return keras.tree.pack_sequence_as(output, keras.tree.flatten(logits))

    def read_teachers(self, x) -> list[dict]:
        """Returns the taps of each teacher, as `Teachers` does.

        Args:
            x: the inputs of the models.

        Raises:
            UsageError: if `x` has cached outputs, but an objective compares
                padded positions, which the cache does not store.
        """
        padded = [
            objective.name
            for objective in self.terms.objectives
            if objective.loss.counts_padding
        ]
        if padded and isinstance(x, dict) and TEACHER_OUTPUTS in x:
            raise UsageError(
                f"{', '.join(padded)} compare padded positions, which the "
                "teacher cache does not store."
            )
        return self.teachers(x)


# Keras' name for the metrics that `compile` was given.
COMPILED_METRICS = "compile_metrics"


@keras.saving.register_keras_serializable(package="kdkit")
class Distiller(Texts, Checks, Step, keras.Model):
    r"""Trains a student to imitate a teacher.

    A `keras.Model` whose `train_step` minimises

    $$\sum_o w_o \mathcal{L}_o(\text{teacher}, \text{student})
        + h \, \mathcal{L}(y, \text{student})$$

    over its objectives $o$ and, with `hard_label_weight` $h$ above 0, the
    compiled loss on the labels. Each step runs the student once and the
    teacher once. The teacher always runs in inference mode and without
    gradient. With several teachers, an objective is the weighted mean of its
    values for each teacher, and each teacher has its own projections.

    `compile`, `fit`, `evaluate`, callbacks, `sample_weight`, `class_weight`,
    mixed precision, `jit_compile` and `tf.distribute` work as for any Keras
    model, on TensorFlow, JAX and PyTorch. `predict` and calling the distiller
    return the student's logits.

    `fit`, `evaluate` and `predict` take encoded batches, or texts, which the
    student's preprocessor encodes. A teacher's preprocessor must do the same.
    If all objectives compare the logits of text classifiers, the models may
    have different vocabularies: texts are then encoded for each model, and
    encoded batches have the teacher's inputs as `"teacher_token_ids"` and so
    on, with several teachers as `"teacher_1_token_ids"`.

    The logs contain one scalar per objective, before its weight, and `"loss"`,
    their weighted sum. Each is a mean over all elements that count in the
    epoch, independent of the batches. For `SoftCrossEntropy` and
    `SoftBinaryCrossEntropy` each teacher's entropy is subtracted, so that a
    student equal to its teacher has 0; the gradient does not change.

    Positions outside `padding_mask` (for a decoder `decoder_padding_mask`)
    count in no objective. For per-position logits, pass the mask as a
    per-position sample weight; the label loss does not see the padding mask
    either. Keras ignores sample weights of data without labels: add arbitrary
    labels then. To mix labelled and unlabelled examples, give the unlabelled
    ones any class and the value 0 in the feature `"label_weight"`, of shape
    `(batch_size,)`. It multiplies the sample weights of the label loss and of
    `weighted_metrics` only.

    Saved files (`save`, `save_weights`, checkpoint callbacks) contain the
    student, the projections and the optimizer, never the teacher's weights. A
    distiller loaded from a `.keras` file can predict; call `attach_teacher`
    before you train it further.

    Args:
        teacher: `keras.Model`. A keras-hub backbone or task model, or any
            functional, sequential or built model whose only output is the
            logits, alone or in a dict. Or the `kdkit.taps.ModelShape` of a
            teacher that is attached later. Or a list of either, for several
            teachers. If logits are compared, models with several outputs or
            with a final softmax or sigmoid are rejected.
        student: `keras.Model`, of the same kinds.
        objectives: list of `kdkit.Objective`, or a single one.
        hard_label_weight: float. Weight of the compiled loss on the labels:
            PKD's 1 − α, LightPAFF's 1 − λ. With 0 no labels are needed, and a
            compiled loss causes a warning. Defaults to `0.0`.
        teacher_weights: list of floats, one per teacher, or `None` for equal
            weights. Only their ratio matters. Defaults to `None`.
        chunk_size: int or `None`. For decoders (`keras_hub.models.CausalLM`),
            the number of positions, counted over all examples, whose logits
            are in memory at once. This limits the memory for a large
            vocabulary and does not change the losses. The compiled loss must
            then be `keras.losses.SparseCategoricalCrossentropy` or
            `kdkit.losses.SmoothedCrossEntropy`, and compiled metrics are not
            possible. `None` for all positions. Defaults to `None`.
        name: string. Name of the model. Defaults to `"distiller"`.

    Raises:
        UsageError: (a `ValueError`) if the objectives do not fit the models:
            unknown tap, layer map out of range, different widths without a
            projection, different head or class counts, a softmax over one
            logit, clashing names. Also if the student trains layers of the
            teacher, if a model ends in a softmax, or if both models have a
            tokenizer and the same ids are different words. `compile` and
            `validate_batch` detect further errors before the first update.

    Example:

    ```python
    distiller = kdkit.Distiller(
        teacher,
        student,
        objectives=[
            kdkit.Objective(
                kdkit.losses.AttentionMSE(), tap="attention_logits"
            ),
            kdkit.Objective(
                kdkit.losses.HiddenStateMSE(),
                tap="hidden_states",
                projection="shared",
            ),
            kdkit.Objective(kdkit.losses.SoftCrossEntropy(), tap="logits"),
        ],
    )
    distiller.compile(optimizer=keras.optimizers.AdamW(5e-5))
    distiller.fit(train, validation_data=dev, epochs=3)
    distiller.student.save("student.keras")
    ```

    With texts, from a student that shares the teacher's preprocessor:

    ```python
    teacher = keras_hub.models.TextClassifier.from_preset("teacher/")
    student = kdkit.models.student(
        "tinybert_4_layer_en_uncased", teacher=teacher
    )
    distiller = kdkit.Distiller(
        teacher, student, kdkit.Objective(kdkit.losses.SoftCrossEntropy())
    )
    distiller.compile(optimizer=keras.optimizers.AdamW(5e-5))
    distiller.fit(["a fine film", "a dull plot"], epochs=3)
    logits = distiller.predict(["a weak cast"])
    ```
    """

    def __init__(
        self,
        teacher,
        student,
        objectives,
        hard_label_weight=0.0,
        teacher_weights=None,
        chunk_size=None,
        name="distiller",
    ):
        objectives = as_tuple(objectives)
        teacher = with_own_inputs(teacher, student, objectives)
        teacher_taps, student_taps = both_taps(objectives)
        teachers = Teachers(teacher, teacher_taps)
        needs_logits = bool(hard_label_weight) or "logits" in student_taps
        student_shape = describe(student, student_taps, needs_logits)
        policy = (find_backbone(student) or student).dtype_policy
        terms = Terms(
            objectives,
            hard_label_weight,
            teachers.shapes,
            teacher_weights,
            student_shape,
            policy,
        )
        super().__init__(name=name, dtype=policy)
        self.student = student
        self.objectives = objectives
        self.hard_label_weight = hard_label_weight
        self.chunk_size = chunk_size
        self.projections = terms.projections
        self.trackers = [
            keras.metrics.Mean(name=objective.name) for objective in objectives
        ]
        weights = [objective.weight for objective in objectives]
        if hard_label_weight:
            self.trackers.append(keras.metrics.Mean(name="hard_label_loss"))
            weights.append(hard_label_weight)
        total = TotalLoss(self.trackers, weights)
        self._hidden = Comparison(
            terms, teachers, student, student_shape, chunk_size, total
        )
        if teachers.models:
            self.attach_teacher(teacher)
        self.has_checked_data = False
        self.built = True

    @property
    def teacher(self):
        """The teacher, a tuple of teachers, or `None` if none is attached."""
        return self._hidden.teachers.one_or_all

    def __dir__(self):
        # Keras saves the models that `dir` lists. The teacher is not saved.
        return [name for name in super().__dir__() if name != "teacher"]

    @property
    def num_classes(self):
        """The width of the student's logits, or `None` without a head."""
        return self._hidden.student_shape.num_classes

    def attach_teacher(self, teacher):
        """Sets the teacher of a distiller created or loaded without one.

        Args:
            teacher: `keras.Model` with the sizes that the distiller was
                created for, or a list of models in the same order.

        Raises:
            UsageError: if the sizes differ, if the student trains layers of
                the teacher, or if both models have a tokenizer and their token
                ids differ.
        """
        require_own_weights(teacher, self.student)
        self._hidden.attach(
            with_own_inputs(teacher, self.student, self.objectives)
        )
        self.has_checked_data = False
        # A step that is already traced would continue to use the old teacher.
        self.train_function = None
        self.test_function = None

    def call(self, inputs, training=None):
        """Returns the student's output."""
        return self.student(
            select_inputs(self.student, inputs), training=training
        )

    def teachers_variables(self) -> list:
        """Returns the teachers' variables, which this model does not track."""
        own = set(map(id, self.variables))  # of frozen layers in both models
        return [
            variable
            for model in self._hidden.teachers.models
            for variable in model.variables
            if id(variable) not in own
        ]

    @property
    def teacher_entries(self) -> list[tuple]:
        """The entries read from each teacher; the teacher cache stores them."""
        return self._hidden.terms.teacher_entries

    def run_teachers(self, x) -> list[dict]:
        """Returns each teacher's taps, in inference mode, without gradient.

        Args:
            x: the inputs of the models.
        """
        return self._hidden.read_teachers(x)

    def run_student(self, x, y, sample_weight, teachers_taps, training):
        """Returns this replica's share of the loss and the student's logits.

        The shares add up over replicas, and so do their gradients, as Keras'
        optimizers expect. The running means are updated.

        Args:
            x: the inputs of the models.
            y: the labels, or `None`.
            sample_weight: the weights of the data, or `None`.
            teachers_taps: the result of `run_teachers`.
            training: bool.
        """
        if self.hard_label_weight:
            require_labels(self.hard_label_weight, self.loss, y)
        student_taps = self._hidden.run_student(x, training=training)
        terms = self._hidden.terms
        compared = (teachers_taps, student_taps, x, sample_weight)
        if self.chunk_size is None:
            y_pred, label_sums = student_taps.get("logits"), None
            numerators, denominators = terms.sums(*compared)
        else:
            y_pred = None
            numerators, denominators, label_sums = terms.sums_in_chunks(
                *compared,
                self._label_term(x, y, sample_weight),
                self.chunk_size,
                self.optimizer.scale_loss(1.0) if training else None,
            )
        extra_loss = self._extra_loss()
        label_loss, num_labels = self._label_loss(
            x, y, y_pred, sample_weight, training, label_sums
        )
        count = len(numerators)
        alone = [extra_loss, label_loss * num_labels, num_labels]
        *totals, extra_total, label_total, num_labels_total = sum_over_replicas(
            [*numerators, *denominators, *alone]
        )
        denominators = totals[count:]
        label_loss *= safe_divide(num_labels, num_labels_total)
        label_total = safe_divide(label_total, num_labels_total)

        shares = list(map(safe_divide, numerators, denominators))
        values = terms.values(
            list(map(safe_divide, totals[:count], denominators))
        )
        batch_size = ops.shape(keras.tree.flatten(x)[0])[0]
        self._hidden.total.update_all(
            [*values, label_total],
            [*denominators[: len(values)], num_labels_total],
            extra_total,
            batch_size,
        )
        loss = extra_loss + self.hard_label_weight * label_loss
        for objective, value in zip(
            self.objectives, terms.values(shares), strict=True
        ):
            loss += objective.weight * value
        return loss, y_pred

    def compute_loss(
        self,
        x=None,
        y=None,
        y_pred=None,
        sample_weight=None,
        training=True,
    ):
        """Returns Keras' label loss plus layer losses; 0 without labels."""
        if self.hard_label_weight:
            require_labels(self.hard_label_weight, self.loss, y)
        elif y is None:
            return ops.zeros((), dtype="float32")
        y_pred = self._hidden.as_output(y_pred)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def _extra_loss(self):
        """Returns this replica's share of the losses of layers."""
        extra_loss = ops.zeros((), dtype="float32")
        for loss in self.losses:
            extra_loss += ops.sum(ops.cast(loss, "float32"))
        return extra_loss / self.num_replicas

    def _label_loss(self, x, y, y_pred, sample_weight, training, sums):
        """Returns the compiled loss on this replica's examples, and a count."""
        if not self.hard_label_weight:
            return ops.zeros((), dtype="float32"), ops.zeros((), "float32")
        weights = spread_label_weights(x, y, y_pred, sample_weight)
        num_labels = label_count(self.loss, y, weights)
        if sums is not None:
            return mean_label_loss(self.loss, y, sums), num_labels
        both = self.compute_loss(x, y, y_pred, weights, training)
        # Keras divides both by the number of replicas. For zero examples it
        # returns losses of shape (0,).
        both = ops.sum(ops.cast(both, "float32"))
        own = self.num_replicas * (both - self._extra_loss())
        return own, num_labels

    def _label_term(self, x, y, sample_weight):
        """Returns the compiled loss as a term for chunks, `None` if unused."""
        if not self.hard_label_weight:
            return None
        weights = spread_label_weights(x, y, None, sample_weight)
        return label_term(self.loss, y, weights, self.hard_label_weight)

    @property
    def metrics(self):
        """The metrics that have a result; compiled ones if they saw labels."""
        return [
            self._hidden.total if metric.name == "loss" else metric
            for metric in super().metrics
            if getattr(metric, "built", True)
        ]

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Updates the compiled metrics if there are labels. Returns the logs.

        Unlabelled training data can thus go with labelled validation data.
        """
        own = [
            metric for metric in self.metrics if metric.name != COMPILED_METRICS
        ]
        if y is None:
            return {metric.name: metric.result() for metric in own}
        y_pred = self._hidden.as_output(y_pred)
        return super().compute_metrics(
            x, y, y_pred, label_weights(x, sample_weight)
        )

    def get_config(self):
        student = keras.saving.serialize_keras_object(self.student)
        # keras-hub task models arrive compiled; here the distiller compiles.
        student.pop("compile_config", None)
        return {
            "teacher": [
                {
                    **dataclasses.asdict(shape),
                    # JSON's types: Keras would mark tuples.
                    "layers": [[name, [*axes]] for name, axes in shape.layers],
                }
                for shape in self._hidden.teachers.shapes
            ],
            "teacher_weights": list(self._hidden.terms.teacher_weights),
            "student": student,
            "objectives": [
                objective.get_config() for objective in self.objectives
            ],
            "hard_label_weight": self.hard_label_weight,
            "chunk_size": self.chunk_size,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = copy.deepcopy(config)  # keras-hub puts models into it
        return cls(
            teacher=[ModelShape(**shape) for shape in config.pop("teacher")],
            student=keras.saving.deserialize_keras_object(
                config.pop("student"), custom_objects=custom_objects
            ),
            objectives=[
                Objective.from_config(objective)
                for objective in config.pop("objectives")
            ],
            **config,
        )
