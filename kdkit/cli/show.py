"""Shows a recipe's stages with all their settings, as --set names them.

example:
  kdkit show tinybert --task cola --parity paper
"""

import dataclasses

from kdkit.cli.parser import option


@dataclasses.dataclass
class Options:
    """recipe"""

    recipe: str = option(
        "a name from kdkit list",
        positional=True,
        required=True,
        metavar="RECIPE",
    )
    task: str = option(
        "the task, which decides the epochs. Defaults to sst2.", default="sst2"
    )
    parity: str | None = option("the variant of the recipe")


def run(options):
    import json

    from kdkit.cli.options import get_recipe
    from kdkit.cli.updates import LEAST_UPDATES, MOST_EPOCHS
    from kdkit.settings import to_dict
    from kdkit.tasks import get_task
    from kdkit.training.data_settings import counting_padding

    recipe = get_recipe(options.recipe)
    stages = recipe.stages_for(get_task(options.task), options.parity)
    general = recipe.prerequisites and recipe.stages_on_text(options.parity)
    print(f"{recipe.name}: {recipe.title}")
    print(f"paper: {recipe.paper}")
    print(f"student: {recipe.student}")
    print(f"parity: {', '.join(sorted(recipe.parities)) or 'none'}")
    if names := counting_padding(stages):
        print(
            "data.num_buckets: null, every batch padded to its full length, "
            f"because {', '.join(names)} count padding"
        )
    if options.parity is None:
        print(
            "epochs: on a small table as many as give "
            f"{LEAST_UPDATES} updates, at most {MOST_EPOCHS}"
        )
    for prefix, group in (("general.", general), ("", stages)):
        for stage in group:
            print(f"\n{prefix}stages.{stage.name}")
            print(json.dumps(to_dict(stage), indent=2))
