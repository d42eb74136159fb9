"""The two ways in which kdkit says no."""


class UsageError(ValueError):
    """What was asked for cannot be done: a mistake of the caller.

    The message says what is wrong, what was expected, what was received and
    how to fix it. The command line prints it alone and exits with status 2.
    """


class RunError(RuntimeError):
    """Work that was rightly asked for failed: a NaN, a failed verification.

    The command line prints it alone and exits with status 1.
    """
