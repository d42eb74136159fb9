"""The setting `jit_compile` of a run."""

from kdkit.errors import UsageError

UPDATE = "update"


def check_jit_compile(value: bool | str) -> None:
    """Checks the setting `jit_compile`.

    Raises:
        UsageError: (a `ValueError`) if it is not `True`, `False` or `"update"`.
    """
    if value not in (True, False, UPDATE):
        raise UsageError(
            '`jit_compile` must be true, false or "update". '
            f"Received: {value!r}."
        )
