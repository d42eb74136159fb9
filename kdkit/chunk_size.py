"""The argument `chunk_size` of objectives on logits."""

from kdkit.errors import UsageError


def check_chunk_size(chunk_size) -> None:
    """Refuses what is no number of positions.

    Raises:
        UsageError: unless it is an integer above 0 or `None`.
    """
    if chunk_size is not None and not (
        isinstance(chunk_size, int) and chunk_size > 0
    ):
        raise UsageError(
            "Invalid value for argument `chunk_size`. Expected an integer "
            f"above 0 or None. Received: chunk_size={chunk_size!r}."
        )
