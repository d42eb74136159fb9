"""What does not go together in the settings of a run on text."""

from kdkit import taps
from kdkit.errors import UsageError
from kdkit.models.families import DECODERS
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings


def check_kept_text(settings) -> None:
    """Refuses to keep what is drawn anew, or what no one reads.

    Args:
        settings: `PretrainSettings` with `cache`.

    Raises:
        UsageError: with all that is wrong.
    """
    objectives = [
        objective for stage in settings.stages for objective in stage.objectives
    ]
    problems = settings.cache.problems(objectives, 1)
    if settings.teacher is None:
        problems.append("it is of a teacher, and there is none")
    if settings.cache.teacher_file is not None:
        problems.append("a teacher's exported file is for tasks")
    if isinstance(settings.corpus, SentenceSettings):
        problems.append(
            "hidden spans are drawn anew in every epoch; what a teacher "
            "says of them cannot be kept"
        )
    others = [
        f"{objective.name} ({objective.tap})"
        for objective in objectives
        if taps.reads_source(objective.tap)
    ]
    if others:
        problems.append(
            "of pairs, what the decoder gives is kept, and "
            f"{', '.join(others)} compare what the encoder reads"
        )
    if problems:
        raise UsageError(f"--cache: {'; '.join(problems)}.")


def check_tokenizer_source(settings) -> None:
    """Refuses a tokenizer where the model, or a teacher, brings one.

    Args:
        settings: `PretrainSettings`.

    Raises:
        UsageError: if there are several, or none is needed.
    """
    sources = {
        name: getattr(settings, name)
        for name in ("tokenizer", "vocabulary_size", "teacher")
        if getattr(settings, name) is not None
    }
    if len(sources) > 1:
        raise UsageError(
            "A tokenizer is read, trained, or a teacher's. Received: "
            f"{sources}. Leave all but one out."
        )
    sources.pop("teacher", None)
    if sources and not settings.model.has_random_weights:
        raise UsageError(
            f"{' and '.join(sources)} is for a model with random weights; "
            f"a checkpoint brings its own tokenizer. Received: {sources}. "
            "Leave it out, or name a --student, which begins at random, in "
            "place of the --model."
        )
    writes_text = (
        settings.model.mass is not None or settings.model.family in DECODERS
    )
    if settings.vocabulary_size is not None and not writes_text:
        raise UsageError(
            "A vocabulary is trained for decoders and encoder-decoders. "
            f"Received: family={settings.model.family!r}. Name a tokenizer."
        )
    if not settings.separate_vocabularies:
        return
    if not isinstance(settings.corpus, PairSettings):
        raise UsageError(
            "Two vocabularies are of the two sides of pairs. The words of "
            "a hidden span stand on both sides, so that sentences need a "
            "joint one. Received: separate_vocabularies=True, "
            f"{type(settings.corpus).__name__}. Use --pairs, or leave it out."
        )
    if settings.vocabulary_size is None:
        raise UsageError(
            "separate_vocabularies is of vocabularies that are trained, "
            "each of so many tokens. Expected --vocabulary-size N. "
            "Received: none."
        )
