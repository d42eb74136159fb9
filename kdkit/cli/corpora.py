"""The texts beside a task's that the options name."""

from kdkit.cli.options import absolute
from kdkit.cli.options import given_flags
from kdkit.data import Masking
from kdkit.errors import UsageError
from kdkit.training.corpus_settings import CorpusSettings
from kdkit.training.transfer_settings import UnlabeledSettings


def corpus_settings(options, recipe=None) -> CorpusSettings | None:
    """The corpus that the options name; `None` where they name none.

    Args:
        options: the parsed options.
        recipe: `Recipe` whose stages are on it, or `None`. Defaults to `None`.
    """
    if options.corpus is None:
        _reject_beside(
            options,
            "--corpus",
            *("column", "held_out", "one_document", "detokenizer"),
        )
        return None
    share_of = Masking.share_of if recipe is None else recipe.mask_share_of
    return CorpusSettings(
        files=tuple(map(absolute, options.corpus)),
        column=options.column,
        held_out=tuple(map(absolute, options.held_out or ())),
        one_document=bool(options.one_document),
        detokenizer=options.detokenizer,
        masking=Masking(share_of=share_of),
    )


def corpus_of(options, recipe, stages):
    """The corpus of stages that need one."""
    corpus = corpus_settings(options, recipe)
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


def unlabeled_settings(options) -> UnlabeledSettings | None:
    """The unlabelled text that the options name; `None` for none."""
    if options.unlabeled is None:
        _reject_beside(
            options,
            "--unlabeled",
            "unlabeled_columns",
            "unlabeled_per_labeled",
        )
        return None
    per_labeled = options.unlabeled_per_labeled
    return UnlabeledSettings(
        files=tuple(map(absolute, options.unlabeled)),
        columns=tuple(options.unlabeled_columns or ()),
        per_labeled=1.0 if per_labeled is None else per_labeled,
    )


def _reject_beside(options, needed, *names):
    """Refuses options that mean nothing without another."""
    given = given_flags(options, names)
    if given:
        raise UsageError(
            f"{' and '.join(given)} needs {needed}. Received: none."
        )
