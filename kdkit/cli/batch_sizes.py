"""How large batches are: in rows, or in tokens where sentences are read."""

from collections.abc import Sequence

from kdkit.errors import UsageError


def refuse_sizes_not_read(settings, assignments: Sequence[str]) -> None:
    """Refuses the size of a batch that a run does not read.

    Args:
        settings: those of a run.
        assignments: sequence of `dotted.field=value`, what `--set` was given.

    Raises:
        UsageError: if one sets rows where batches are counted in tokens, or
            tokens where they are counted in rows.
    """
    of_tokens = getattr(settings, "reads_sentences", False)
    read, unread = "batch_size", "batch_tokens"
    if of_tokens:
        read, unread = unread, read
    fields = [assignment.partition("=")[0] for assignment in assignments]
    found = [field for field in fields if field.split(".")[-1] == unread]
    if found:
        raise UsageError(
            f"--set: {', '.join(found)} would not be read. Batches of this "
            f"run are counted in {'tokens' if of_tokens else 'rows'}: set "
            f"{read} in its place."
        )
