"""What trains a model in a stage: a distiller, or what learns from labels."""

from kdkit.distiller import Distiller
from kdkit.taps import select_inputs
from kdkit.training.label_trainer import LabelTrainer
from kdkit.training.material import Material
from kdkit.training.optimizers import UPDATE
from kdkit.training.stages import Stage


def make_trainer(arm, stage: Stage, material: Material, num_updates: int):
    """Returns a compiled `Distiller`, or what trains on labels alone.

    Args:
        arm: `Arm`. Its model is trained.
        stage: `Stage`.
        material: `Material` that the stage trains on.
        num_updates: int. Updates of the stage, for its learning rates.
    """
    trainer = arm.model
    if stage.objectives:
        trainer = Distiller(
            arm.teacher,
            arm.model,
            stage.build_objectives(),
            hard_label_weight=stage.label_weight,
            teacher_weights=arm.teacher_weights,
            chunk_size=stage.chunk_size,
        )
    elif arm.distribution.strategy:
        trainer = LabelTrainer(arm.model)
    optimizer = stage.make_optimizer(
        num_updates, fused=arm.jit_compile == UPDATE
    )
    trainer.compile(
        optimizer=optimizer,
        loss=stage.make_label_loss(material.label_loss),
        # A keras-hub task model has metrics of its own until it is given
        # others. Rows whose label does not count have weight 0.
        metrics=[] if trainer is arm.model else None,
        weighted_metrics=material.training_metrics or None,
        jit_compile=arm.jit_compile is True,
    )
    # Keras' own, around the stage's where losses are scaled.
    trainer.optimizer.build(trainer.trainable_variables)
    return trainer


def batches_for(arm, stage: Stage, batches):
    """Leaves out what the model takes not; a distiller does it itself.

    Args:
        arm: `Arm`.
        stage: `Stage`.
        batches: `tf.data.Dataset` of its batches.
    """
    if stage.objectives or arm.distribution.strategy:
        return batches
    return batches.map(
        lambda x, *labels: (select_inputs(arm.model, x), *labels)
    )
