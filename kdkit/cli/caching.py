"""What `--cache` and the options beside it say."""

from kdkit.cli.options import absolute
from kdkit.cli.options import given_flags
from kdkit.cli.options import located
from kdkit.errors import UsageError
from kdkit.training.transfer_settings import CacheSettings


def cache_settings(options) -> CacheSettings | None:
    """Returns where the teacher's outputs are to be kept, if anywhere.

    Args:
        options: the parsed options of a verb with `--cache`.

    Raises:
        UsageError: if something is said of a cache and there is none.
    """
    if options.cache is not None:
        return CacheSettings(
            located(options.cache),
            options.cache_precision or "fp32",
            absolute(options.teacher_file),
        )
    if given := given_flags(options, ("cache_precision", "teacher_file")):
        raise UsageError(
            f"{' and '.join(given)} needs --cache beside it. Received: none."
        )
    return None
