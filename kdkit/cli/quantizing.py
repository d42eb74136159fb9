"""The option `--quantize`: the stage that it adds to a recipe."""

from kdkit.cli.choosing import saved_size
from kdkit.cli.options import absolute
from kdkit.recipes import CopiedBlocks
from kdkit.recipes.quantization import quantization_stage
from kdkit.recipes.stages import Stage

WIDTHS = ("hidden_dim", "hidden_size", "dim")
HEADS = ("num_heads", "num_attention_heads", "n_heads")


def chosen_quantization(options, recipe, task) -> tuple[Stage, ...]:
    """Returns the stage that `--quantize` adds, or an empty tuple.

    Hidden states and attention are compared if the student is known to have
    the teacher's width and heads, because it consists of its layers or because
    its config says so.

    Args:
        options: the parsed options of a verb that distils.
        recipe: `kdkit.recipes.Recipe`.
        task: `kdkit.tasks.Task`.

    Raises:
        UsageError: if the precision is unknown.
    """
    precision = getattr(options, "quantize", None)
    if precision is None:
        return ()
    stages = recipe.stages_for(task, options.parity)
    return (
        quantization_stage(
            precision,
            task,
            options.smoke
            and isinstance(recipe.student, CopiedBlocks)
            or not options.smoke
            and _has_teachers_sizes(options, recipe),
            any(stage.objectives for stage in stages),
        ),
    )


def _has_teachers_sizes(options, recipe):
    student = absolute(options.student or options.general)
    if student is None:
        return isinstance(recipe.student, CopiedBlocks)
    teachers = options.teacher or [options.encoder]
    return all(
        saved_size(student, *names) is not None
        and saved_size(student, *names) == saved_size(absolute(one), *names)
        for names in (WIDTHS, HEADS)
        for one in teachers
    )
