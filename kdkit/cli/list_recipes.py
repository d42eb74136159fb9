"""Lists recipes, student presets with their sizes, and tasks.

example:
  kdkit list
"""


def add_arguments(parser):
    del parser


def run(options):
    del options
    from rich.console import Console
    from rich.table import Table

    from kdkit.models import PRESETS
    from kdkit.recipes import RECIPES
    from kdkit.tasks import TASKS

    recipes = Table("recipe", "what it does", "paper", title="Recipes")
    for recipe in RECIPES.values():
        recipes.add_row(recipe.name, recipe.title, recipe.paper)
    presets = Table(
        "preset", "layers × width", "heads", "feed-forward", "source",
        title="Student presets",
    )  # fmt: skip
    for name, preset in PRESETS.items():
        config = preset.config
        presets.add_row(
            name,
            f"{config.num_layers} × {config.hidden_dim}",
            str(config.num_heads),
            str(config.intermediate_dim),
            preset.paper,
        )
    tasks = Table(
        "task", "kind", "classes", "chosen by", "tokens", title="Tasks"
    )
    for task in TASKS.values():
        tasks.add_row(
            task.name,
            task.kind.title,
            _classes(task),
            task.primary_metric,
            str(task.sequence_length),
        )
    console = Console()
    for table in (recipes, presets, tasks):
        console.print(table)


def _classes(task):
    if task.is_regression:
        return ""
    return "in the data" if task.has_classes_in_data else str(task.num_classes)
