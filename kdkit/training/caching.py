"""The caches of a run's teachers, and what a stage reads from them."""

import json
import pathlib

from kdkit.files import digest_of_text
from kdkit.models import LoadedModel
from kdkit.objectives import Terms
from kdkit.taps import describe
from kdkit.teacher_cache import OutputsOfTeachers
from kdkit.teacher_cache import TeacherCache
from kdkit.training.inputs import model_digest
from kdkit.training.stages import Stage
from kdkit.training.transfer_settings import CacheSettings


class TeacherCaches:
    """The caches of all teachers of a run.

    That of a single teacher is the directory itself; those of several are in
    it.

    Args:
        settings: `CacheSettings`.
        teachers: list of `kdkit.models.LoadedModel`.
        places: list of where they were loaded from.
        part: as in `kdkit.teacher_cache.TeacherCache`. Defaults to `None`.

    Raises:
        UsageError: if a directory holds a cache of something else.
    """

    def __init__(
        self,
        settings: CacheSettings,
        teachers: list[LoadedModel],
        places: list,
        part: tuple[int, int] | None = None,
    ):
        self._read = [set() for _ in teachers]
        self._shapes = [describe(teacher.model) for teacher in teachers]
        directory = pathlib.Path(settings.directory)
        self._caches = [
            TeacherCache(
                directory
                if len(teachers) == 1
                else directory / f"teacher_{number}",
                teacher.model,
                {
                    "teacher": model_digest(place),
                    "vocabulary": digest_of_text(
                        json.dumps(teacher.tokenizer.get_vocabulary())
                    ),
                },
                settings.precision,
                _say,
                part,
            )
            for number, (teacher, place) in enumerate(
                zip(teachers, places, strict=True), start=1
            )
        ]

    def features(self, stage: Stage, student, teacher_weights=None):
        """Returns what adds the teachers' outputs to the batches of a stage.

        Args:
            stage: `Stage` with objectives.
            student: the student's model.
            teacher_weights: as in `kdkit.Distiller`.

        Returns:
            A callable from `kdkit.data.EncodedExamples`, as
            `kdkit.data.training_batches` takes it. It runs the teachers over
            the rows that are not there yet.
        """
        terms = Terms(
            tuple(stage.build_objectives()),
            stage.label_weight,
            self._shapes,
            teacher_weights,
            describe(student),
        )

        for read, entries in zip(
            self._read, terms.teacher_entries, strict=True
        ):
            read.update(entry.name for entry in entries)

        def features(encoded):
            return OutputsOfTeachers(
                [
                    cache.outputs(encoded, entries)
                    for cache, entries in zip(
                        self._caches, terms.teacher_entries, strict=True
                    )
                ]
            )

        return features

    def relative_errors(self) -> list[dict]:
        """The relative error of what was read, by name, for each teacher."""
        return [
            {name: cache.relative_error(name) for name in sorted(read)}
            for cache, read in zip(self._caches, self._read, strict=True)
        ]


def _say(line):
    print(line, flush=True)
