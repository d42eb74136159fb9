"""Whether the processes of a run see the same folder under its name."""

import pathlib
import tempfile

from kdkit.disk import writing
from kdkit.training.distribution import Distribution


def is_one_folder(distribution: Distribution, folder) -> bool:
    """Returns whether all processes see one folder, as on a shared disk.

    Each makes a folder in it, and looks for those of the others. All of them
    come here, and get the same answer.

    Args:
        distribution: `Distribution`.
        folder: string or path. Made if needed.

    Raises:
        RunError: where nothing can be written to it.
    """
    folder = pathlib.Path(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".seen-") as own:
            names = distribution.texts_of_all(pathlib.Path(own).name)
            unseen = not all((folder / name).is_dir() for name in names)
            # Theirs stay until all have looked.
            return not distribution.any_of_all(unseen)
