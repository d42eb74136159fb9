"""What can be wrong with a run, found out before Keras is imported."""

from collections.abc import Iterator

from kdkit import models
from kdkit.errors import all_mistakes
from kdkit.runs.directory import check_run
from kdkit.runs.directory import is_finished
from kdkit.runs.settings import PRETRAINED
from kdkit.runs.settings import DistillSettings
from kdkit.runs.settings import PretrainSettings
from kdkit.runs.settings import TeacherSettings
from kdkit.settings import to_dict
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.task_data import check_data
from kdkit.training.task_data import open_task

RunSettings = DistillSettings | PretrainSettings | TeacherSettings
# `copy_from` of models that the run itself has.
OF_RUN = (PRETRAINED, "pretrained", "teacher")


def check_first(settings: RunSettings, run_dir) -> None:
    """Checks the directory of a run, its files and the places of its models.

    The run checks all of it again, when Keras is there. A finished run needs
    its directory alone.

    Args:
        settings: settings of the run.
        run_dir: string or path.

    Raises:
        UsageError: (a `ValueError`) if the directory is not of this run, or
            with all that is missing.
    """
    check_run(run_dir, to_dict(settings), type(settings))
    if not is_finished(run_dir):
        check_sources(settings)


def check_sources(settings: RunSettings) -> None:
    """Checks the files of a run and the places of its models.

    Args:
        settings: settings of the run.

    Raises:
        UsageError: with all that is missing.
    """
    with all_mistakes() as check:
        if isinstance(settings, PretrainSettings):
            # Pairs are read in full.
            if not isinstance(settings.corpus, PairSettings):
                with check():
                    settings.corpus.check()
        else:
            with check():
                check_data(open_task(settings.data), settings.data)
        with check():
            check_places(settings)
    for place in _places(settings):
        models.announce_download(place)
    if not isinstance(settings, PretrainSettings):
        open_task(settings.data).announce_download(settings.data.data_dir)


def check_places(settings: RunSettings) -> None:
    """Checks the places of a run's models.

    Args:
        settings: settings of the run.

    Raises:
        UsageError: with all places that hold nothing.
    """
    with all_mistakes() as check:
        for place in _places(settings):
            with check():
                models.check_place(place)


def _places(settings) -> Iterator[str]:
    """Where the models are that a run begins with, and makes not itself."""
    if isinstance(settings, DistillSettings):
        if isinstance(settings.teacher, TeacherSettings):
            yield from _places(settings.teacher)
        else:
            yield settings.teacher
        yield from settings.more_teachers
        if isinstance(settings.pretrained, str):
            yield settings.pretrained
        if settings.general is not None:  # makes the student's checkpoint
            return
        model = settings.student
    else:
        model = settings.model
    if isinstance(settings, PretrainSettings):
        yield from filter(None, (settings.teacher, settings.tokenizer))
    place = model.checkpoint or model.copy_from
    if place is not None and place not in OF_RUN:
        yield place
