"""What trains a model in a stage: a distiller, or what learns from labels."""

from kdkit.distiller import Distiller
from kdkit.models import padding_row
from kdkit.training.compiling import UPDATE
from kdkit.training.label_trainer import LabelTrainer
from kdkit.training.material import Material
from kdkit.training.stages import Stage


def make_trainer(arm, stage: Stage, material: Material, num_updates: int):
    """Returns a compiled `Distiller`, or what trains on labels alone.

    Args:
        arm: `Arm`. Its model is trained.
        stage: `Stage`.
        material: `Material` that the stage trains on.
        num_updates: int. Updates of the stage, for its learning rates.
    """
    if stage.objectives:
        trainer = Distiller(
            arm.teacher,
            arm.model,
            stage.build_objectives(),
            hard_label_weight=stage.label_weight,
            teacher_weights=arm.teacher_weights,
            chunk_size=stage.chunk_size,
        )
        # The run has examined its data and models.
        trainer.has_checked_data = True
    else:
        trainer = LabelTrainer(arm.model)
    optimizer = stage.make_optimizer(
        num_updates,
        fused=arm.jit_compile == UPDATE,
        padding_row=padding_row(arm.model, material.pad_token_id),
    )
    trainer.compile(
        optimizer=optimizer,
        loss=stage.make_label_loss(material.label_loss),
        # Rows whose label does not count have weight 0.
        weighted_metrics=material.training_metrics or None,
        jit_compile=arm.jit_compile is True,
    )
    # Keras' own, around the stage's where losses are scaled.
    trainer.optimizer.build(trainer.trainable_variables)
    return trainer
