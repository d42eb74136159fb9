"""What a distillation needs first: a general student, augmented copies."""

import pathlib
import tempfile

from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.io.disk import writing
from kdkit.io.locks import locked
from kdkit.runs.augmenting import check_augmentation
from kdkit.runs.augmenting import prepare_augmented
from kdkit.runs.augmenting import prepare_part
from kdkit.runs.directory import is_finished
from kdkit.runs.inputs import files_digest
from kdkit.runs.inputs import model_digest
from kdkit.runs.inputs import rows_digest
from kdkit.runs.pretraining import pretrain
from kdkit.runs.settings import DistillSettings
from kdkit.tasks import Task
from kdkit.training.data_settings import DataSettings
from kdkit.training.distribution import ONE_DEVICE
from kdkit.training.distribution import Distribution
from kdkit.training.model_settings import ModelSettings
from kdkit.training.task_data import check_data
from kdkit.training.task_data import kept_apart

KEPT_APART = "set of splits that rows are kept apart from"


def check_transfer(settings: DistillSettings, task: Task) -> None:
    """Checks the data and what `prepare_transfer` will use, before any work.

    Raises:
        UsageError: with all that is missing.
    """
    with all_mistakes() as check:
        with check():
            check_data(task, settings.data)
        with check():
            check_further_files(settings, task)


def check_further_files(settings: DistillSettings, task: Task) -> None:
    """Checks what stands beside the rows of the task: copies, text, a cache.

    Raises:
        UsageError: with all that is missing, or cannot be made.
    """
    with all_mistakes() as check:
        if settings.augmented is not None:
            with check():
                check_augmentation(settings.augmented, task)
        if settings.general is not None:
            with check():
                settings.general.corpus.check()
        if settings.unlabeled is not None:
            with check():
                _check_there(settings.unlabeled.files)
        if settings.cache is not None:
            with check():
                settings.cache.check()


def prepare_transfer(
    settings: DistillSettings,
    task: Task,
    distribution: Distribution = ONE_DEVICE,
    force: bool = False,
    findings=None,
) -> None:
    """Makes the student to start from and the copies, or finds them made.

    What was made from the same inputs, by their content, is used again.

    Args:
        settings: `DistillSettings`.
        task: `kdkit.tasks.Task`.
        distribution: `Distribution`. Its processes make parts of the copies,
            which its chief joins; where they do not see one folder, each makes
            all of them. Defaults to one device.
        force: bool, as in `kdkit.training.pretrain`. Defaults to `False`.
        findings: as in `kdkit.training.pretrain`. Defaults to `None`.

    Raises:
        UsageError: if what is there was made from something else.
        RunError: if a loss is not finite or a file cannot be written.
    """
    if settings.general is not None:
        place = settings.student.checkpoint
        pretrain(settings.general, place, findings, force=force)
    if settings.augmented is not None:
        if distribution.part is not None:
            _prepare_parts(settings.augmented, distribution)
        with distribution.chief_first():
            prepare_copies(settings, task)


def prepare_copies(settings: DistillSettings, task: Task) -> None:
    """Makes the copies, or finds them made; processes do it in turn.

    Args:
        settings: `DistillSettings` with `augmented`.
        task: `kdkit.tasks.Task`.

    Raises:
        UsageError, RunError: as `prepare_transfer`.
    """
    train = task.load("train", settings.data.data_dir)
    file = pathlib.Path(settings.augmented.file)
    if file.exists():
        prepare_augmented(settings.augmented, train)
        return
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    turn = file.with_name(f".{file.name}.turn.lock")
    with locked(turn, waiting=f"Another process makes {file}: waiting for it."):
        prepare_augmented(settings.augmented, train)
        turn.unlink(missing_ok=True)


def known_sizes(settings: DistillSettings) -> ModelSettings:
    """Returns the student, by its sizes until general distillation made it.

    Args:
        settings: `DistillSettings`.
    """
    student = settings.student
    if settings.general is not None and not is_finished(student.checkpoint):
        return settings.general.model
    return student


def _prepare_parts(settings, distribution):
    """Makes the parts of a file that is not there, where all find them."""
    file = pathlib.Path(settings.file)
    if distribution.any_of_all(not file.exists()) and is_one_folder(
        distribution, file.parent
    ):
        prepare_part(settings, distribution.part)
        distribution.barrier()


def inputs_of(settings: DistillSettings, task: Task) -> dict[str, str | None]:
    """Returns what a distillation is made from, by content.

    What is made within the run directory is not among it. The splits that are
    not trained on are where they decide which rows are: of texts without labels
    and of copies, those that stand there are left out.
    """
    inputs = data_inputs(task, settings.data)
    if settings.unlabeled is not None or settings.augmented is not None:
        splits = kept_apart(task, settings.data)
        inputs[KEPT_APART] = ", ".join(splits)
        for split in splits:
            if split not in inputs:
                rows = task.load(split, settings.data.data_dir)
                inputs[split] = rows_digest(rows)
    teachers = [settings.teacher, *settings.more_teachers]
    student = settings.student
    models = {
        **{
            "teacher" if number == 1 else f"teacher_{number}": place
            for number, place in enumerate(teachers, start=1)
        },
        "pretrained": settings.pretrained,
        "student": student.checkpoint,
    }
    if student.copy_from not in (None, "teacher", "pretrained"):
        models["student"] = student.copy_from
    for name, place in models.items():
        if isinstance(place, str):
            inputs[name] = model_digest(place)
    files = {
        "corpus": settings.corpus and settings.corpus.all_files,
        "unlabeled": settings.unlabeled and settings.unlabeled.files,
        "augmented": settings.augmented and (settings.augmented.file,),
        "teacher_file": settings.cache
        and settings.cache.teacher_file
        and (settings.cache.teacher_file,),
        "word_vectors": student.bilstm
        and student.bilstm.word_vectors
        and (student.bilstm.word_vectors,),
    }
    for name, places in files.items():
        if places:
            inputs[name] = files_digest(places)
    return inputs


def data_inputs(task: Task, settings: DataSettings) -> dict[str, str]:
    """Returns the digests of the rows to train and to choose on."""
    return {
        split: rows_digest(task.load(split, settings.data_dir))
        for split in ("train", settings.dev_split)
    }


def _check_there(files):
    missing = [file for file in files if not pathlib.Path(file).is_file()]
    if missing:
        raise UsageError(
            f"Cannot read {', '.join(missing)}: there is no such file. "
            "Expected text without labels."
        )


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
