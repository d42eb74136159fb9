"""The Distiller: a Keras model that trains a student against a teacher."""

import copy
import dataclasses
import warnings

import keras
from keras import ops

from kdkit.distillation.comparison import (
    Comparison,
    require_own_weights,
    teacher_entries,
)
from kdkit.distillation.first_batch import require_logits
from kdkit.distillation.labels import (
    label_count,
    label_term,
    require_label_values,
    require_labels,
    require_loss_on_logits,
    require_metrics_on_logits,
    spread_label_weights,
)
from kdkit.distillation.objective import Objective, require_weight
from kdkit.distillation.strings import Texts, with_own_inputs
from kdkit.distillation.weights import label_weights
from kdkit.errors import UsageError
from kdkit.losses.base import safe_divide
from kdkit.models.families import find_backbone
from kdkit.steps import Step, sum_over_replicas
from kdkit.taps import ModelShape, select_inputs


@keras.saving.register_keras_serializable(package="kdkit")
class Distiller(Texts, Step, keras.Model):
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
    count in no objective, but for taps of single layers (`"layer:NAME"`) of an
    encoder-decoder. For per-position logits, pass the mask as a
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
        if isinstance(objectives, Objective):
            objectives = (objectives,)
        objectives = tuple(objectives)
        require_weight("hard_label_weight", hard_label_weight)
        teachers = with_own_inputs(teacher, student, objectives)
        policy = (find_backbone(student) or student).dtype_policy
        comparison = Comparison(
            teachers,
            student,
            objectives,
            teacher_weights,
            hard_label_weight,
            chunk_size,
            policy,
        )
        super().__init__(name=name, dtype=policy)
        self.student = student
        self.objectives = objectives
        self.hard_label_weight = hard_label_weight
        self.chunk_size = chunk_size
        layers = {}
        for term in comparison.terms:
            for layer in term.projections.values():
                layers[layer.name] = layer
        self.projections = list(layers.values())
        trackers = [part.tracker for part in comparison.parts]
        self.trackers = list(dict.fromkeys(trackers))
        self._comparison = comparison
        self.has_checked_data = False
        if not isinstance(teachers[0], ModelShape):
            comparison.attach(teachers, student)
        self.built = True

    @property
    def teacher(self):
        """The teacher, a tuple of teachers, or `None` if none is attached."""
        models = self._comparison.models
        if len(models) == 1:
            return models[0]
        return models or None

    def __dir__(self):
        # Keras saves the models that `dir` lists. The teacher is not saved.
        return [name for name in super().__dir__() if name != "teacher"]

    @property
    def num_classes(self):
        """The width of the student's logits, or `None` without a head."""
        return self._comparison.student_shape.num_classes

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
        teachers = with_own_inputs(teacher, self.student, self.objectives)
        self._comparison.attach(teachers, self.student)
        self.has_checked_data = False
        # A step that is already traced would continue to use the old teacher.
        self.train_function = None
        self.test_function = None

    def call(self, inputs, training=None):
        """Returns the student's output."""
        return self.student(
            select_inputs(self.student, inputs), training=training
        )

    def teachers_variables(self):
        """Returns the teachers' variables, which this model does not track."""
        own = set(map(id, self.variables))  # of frozen layers in both models
        return [
            variable
            for model in self._comparison.models
            for variable in model.variables
            if id(variable) not in own
        ]

    @property
    def teacher_entries(self) -> list[tuple]:
        """The entries read from each teacher; the teacher cache stores them."""
        student = self._comparison.student_shape
        return [
            teacher_entries(self.objectives, teacher, student)
            for teacher in self._comparison.shapes
        ]

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        loss_weights=None,
        metrics=None,
        weighted_metrics=None,
        **kwargs,
    ):
        """Configures training, as `keras.Model.compile` does.

        Args:
            optimizer, loss_weights, **kwargs: as in `keras.Model.compile`.
            loss: the loss between labels and the student's logits, such as
                `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`.
                Its weight is `hard_label_weight`. Defaults to `None`.
            metrics, weighted_metrics: metrics of labels and the student's
                logits, such as `keras.metrics.AUC(from_logits=True)`.

        Raises:
            UsageError: (a `ValueError`) if the loss or a metric expects
                probabilities, if the loss applies a softmax to a single logit,
                if a metric has the name of an objective, and for `loss_weights`
                with `chunk_size`.
        """
        # A frozen layer that both models have may train now.
        require_own_weights(self._comparison.models, self.student)
        measured = (metrics, weighted_metrics)
        self._comparison.require_other_names(measured)
        if self.num_classes is not None:
            require_metrics_on_logits(measured, self.num_classes)
        if self.chunk_size is not None and loss_weights is not None:
            raise UsageError("With chunk_size, use hard_label_weight.")
        if self.hard_label_weight:
            require_loss_on_logits(loss, self.num_classes)
        elif loss is not None:
            warnings.warn(
                "The compiled loss is not used, because hard_label_weight is "
                "0.",
                stacklevel=2,
            )
            loss = None
        super().compile(
            optimizer, loss, loss_weights, metrics, weighted_metrics, **kwargs
        )

    def compile_from_config(self, config):
        # Keras does not compile a loaded model whose class has a `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def train_on_batch(self, x, y=None, sample_weight=None, *args, **kwargs):
        """Does the same as `keras.Model.train_on_batch`."""
        if not self.has_checked_data:
            self.validate_batch((x, y, sample_weight))
        return super().train_on_batch(x, y, sample_weight, *args, **kwargs)

    def validate_batch(self, data):
        """Raises an error for labels or outputs that would be misinterpreted.

        `fit` and `train_on_batch` call it with the first batch, before any
        weight changes. A model whose graph does not end in a linear layer runs
        once on the batch.

        Args:
            data: a batch, as in `keras.Model.train_step`.

        Raises:
            UsageError: (a `ValueError`) if a label is not a class of the
                student, or if the outputs are probabilities: at least two rows,
                no negative value, and each row sums to 1.
        """
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        if self.hard_label_weight:
            require_labels(self.loss, y)
            require_label_values(self.loss, y, self.num_classes)
        losses = [one.loss for one in self.objectives if one.tap == "logits"]
        teachers = self._comparison.models if losses else ()
        counts_logits = losses or self.hard_label_weight
        # Models with chunked logits are of known families.
        if counts_logits and self.chunk_size is None:
            require_logits(teachers, self.student, losses, x)
        self.has_checked_data = True

    def run_teachers(self, x):
        """Returns each teacher's taps, in inference mode, without gradient.

        Args:
            x: the inputs of the models.
        """
        return self._comparison.run_teachers(x)

    def run_student(self, x, y, sample_weight, teachers_taps, training):
        """Returns this replica's share of the loss and the student's logits.

        Each term of the loss is Σ weight × value / Σ weight, where both sums
        are over all replicas. The shares add up over replicas, and so do their
        gradients, as Keras' optimizers expect. The running means are updated.

        Args:
            x: the inputs of the models.
            y: the labels, or `None`.
            sample_weight: the weights of the data, or `None`.
            teachers_taps: the result of `run_teachers`.
            training: bool.
        """
        comparison = self._comparison
        y_pred, student_taps = comparison.run_student(x, training)
        compared = (teachers_taps, student_taps, x, sample_weight)
        if self.chunk_size is None:
            sums = []
            for term in comparison.terms:
                sums.append(term.sums(*compared))
            if self.hard_label_weight:
                given = (x, y, y_pred, sample_weight, training)
                sums.append(self._label_sums(*given))
        else:
            sums = comparison.sums_in_chunks(
                *compared,
                labels=label_term(
                    self.loss, self.hard_label_weight, x, y, sample_weight
                ),
                scale=self.optimizer.scale_loss(1.0) if training else None,
            )
        loss = self._extra_loss()
        all_sums, extra = sum_over_replicas((sums, loss))
        for part, (top, _), (all_top, bottom) in zip(
            comparison.parts, sums, all_sums, strict=True
        ):
            # Not in place: PyTorch would add to `extra`, the same tensor.
            loss = loss + part.weight * safe_divide(top, bottom)
            value = safe_divide(all_top, bottom)
            part.tracker.update_state(value, sample_weight=part.share * bottom)
        first, *_ = keras.tree.flatten(x)
        batch_size = ops.shape(first)[0]
        self.metrics[0].update_state(extra, sample_weight=batch_size)
        return loss, y_pred

    def _extra_loss(self):
        """Returns this replica's share of the losses of layers."""
        extra_loss = ops.zeros((), dtype="float32")
        for loss in self.losses:
            extra_loss += ops.sum(ops.cast(loss, "float32"))
        return extra_loss / self.num_replicas

    def _label_sums(self, x, y, y_pred, sample_weight, training):
        """Returns the compiled loss times the number of labels, and that."""
        require_labels(self.loss, y)
        weights = spread_label_weights(x, y, y_pred, sample_weight)
        loss = self.compute_loss(x, y, y_pred, weights, training)
        # For zero examples Keras returns losses of shape (0,).
        loss = ops.sum(ops.cast(loss, "float32"))
        # Keras adds the losses of layers, and divides by the replicas.
        mean = self.num_replicas * (loss - self._extra_loss())
        num_labels = label_count(self.loss, y, weights, y_pred)
        return mean * num_labels, num_labels

    @property
    def metrics(self):
        """The metrics that have a result; compiled ones if they saw labels."""
        return [one for one in super().metrics if getattr(one, "built", True)]

    def get_metrics_result(self):
        """Returns the logs, with the weighted sum of all terms as `"loss"`.

        Each term is a mean over the elements that count for it: examples,
        tokens, or pairs in attention. The mean of the steps' losses would be
        another number: an example in a batch with few tokens would count more
        than others.
        """
        logs = super().get_metrics_result()
        for part in self._comparison.parts:
            logs["loss"] += part.weight * part.tracker.result()
        return logs

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Updates the compiled metrics if there are labels. Returns the logs.

        Unlabelled training data can thus go with labelled validation data.
        """
        if y is None:
            logs = self.get_metrics_result()
            names = [one.name for one in self.metrics]
            return {name: logs[name] for name in names if name in logs}
        weights = label_weights(x, sample_weight)
        return super().compute_metrics(x, y, y_pred, weights)

    def get_config(self):
        student = keras.saving.serialize_keras_object(self.student)
        # keras-hub task models arrive compiled; here the distiller compiles.
        student.pop("compile_config", None)
        return {
            "teacher": [*map(dataclasses.asdict, self._comparison.shapes)],
            "teacher_weights": list(self._comparison.teacher_weights),
            "student": student,
            "objectives": [one.get_config() for one in self.objectives],
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
            objectives=[*map(Objective.from_config, config.pop("objectives"))],
            **config,
        )
