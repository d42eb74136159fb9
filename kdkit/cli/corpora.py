"""The corpus that the options name."""

from kdkit.cli.options import absolute
from kdkit.errors import UsageError
from kdkit.training.corpus_settings import CorpusSettings


def corpus_settings(options) -> CorpusSettings | None:
    """The corpus that the options name; `None` where they name none."""
    if options.corpus is None:
        beside = [
            f"--{name.replace('_', '-')}"
            for name in ("column", "held_out")
            if getattr(options, name) is not None
        ]
        if beside:
            raise UsageError(
                f"{' and '.join(beside)} needs --corpus. Received: none."
            )
        return None
    return CorpusSettings(
        files=tuple(map(absolute, options.corpus)),
        column=options.column,
        held_out=tuple(map(absolute, options.held_out or ())),
    )


def corpus_of(options, recipe, stages):
    """The corpus of stages that need one."""
    corpus = corpus_settings(options)
    if any(stage.data == "corpus" for stage in stages):
        if corpus is None:
            names = [stage.name for stage in stages if stage.data == "corpus"]
            raise UsageError(
                f"Recipe {recipe.name!r} needs running text for "
                f"{', '.join(names)}. Pass --corpus FILE, or leave that out "
                "with --stages."
            )
    elif corpus is not None:
        raise UsageError(
            f"--corpus: no stage of recipe {recipe.name!r} here trains on "
            "running text. Leave it out."
        )
    return corpus
