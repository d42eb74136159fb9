"""Models of a run: loaded, copied out of an encoder, or built."""

from collections.abc import Callable

import keras_hub

from kdkit import data
from kdkit import models
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.tasks import Task
from kdkit.training.model_settings import ModelSettings

DATA_LENGTH = "--set data.sequence_length="
CORPUS_LENGTH = "--set corpus.sequence_length="


def check_length(sequence_length: int, model, option: str) -> None:
    """Refuses rows that are longer than a model's positions.

    Args:
        sequence_length: int. Tokens of a row.
        model: `keras.Model`.
        option: string. What sets the length, but for the number.

    Raises:
        UsageError: if they are.
    """
    check_positions(sequence_length, models.num_positions(model), option)


def check_positions(
    sequence_length: int, positions: int | None, option: str
) -> None:
    """As `check_length`, for a model that is not built yet.

    Args:
        sequence_length: int. Tokens of a row.
        positions: int or `None`. The model's, if it has or tells any.
        option: string. What sets the length, but for the number.

    Raises:
        UsageError: if rows are longer.
    """
    if positions is not None and sequence_length > positions:
        raise UsageError(
            "Rows may be longer than the model reads. Received: rows of "
            f"{sequence_length} tokens, a model with {positions} positions. "
            f"Use {option}{positions}."
        )


def check_sizes(settings: ModelSettings) -> None:
    """Refuses sizes that no model has, before one is built.

    Args:
        settings: `ModelSettings`. Only those with random weights have sizes.

    Raises:
        UsageError: with all that is impossible.
    """
    if settings.has_random_weights:
        models.student_config(settings.config())


def load_teacher(source, task: Task) -> "models.LoadedModel":
    """Loads a fine-tuned teacher.

    Args:
        source: string or path, as `kdkit.models.load_classifier` takes it.
        task: `kdkit.tasks.Task`.

    Raises:
        UsageError: if there is none, or its head is untrained.
    """
    teacher = models.load_classifier(source, task.head)
    models.require_num_classes(teacher.num_other_classes, task.head, source)
    if not teacher.has_trained_head:
        of_others = ""
        if task.head.kind == "sequence":
            of_others = (
                "; a Hugging Face checkpoint is one if its class ends with "
                "ForSequenceClassification"
            )
        raise UsageError(
            f"The teacher in {source} is a pretrained encoder whose head for "
            f"task {task.name!r} is untrained. Expected a fine-tuned teacher "
            f"of {task.num_classes} classes{of_others}. Make one with: kdkit "
            f"train-teacher --task {task.name} --model {source} --run-dir RUN"
        )
    if teacher.tokenizer is None:
        raise UsageError(
            f"The teacher in {source} brings no tokenizer. Expected a run or a "
            "preset directory, or a .keras file whose preprocessor has one."
        )
    return teacher


def load_text_teacher(source, needs_head: bool) -> "models.LoadedModel":
    """Loads a pretrained encoder that teaches on running text.

    Args:
        source: string or path, as `kdkit.models.load_language_model` takes it.
        needs_head: bool. Whether its predictions of masked tokens are learned
            from.

    Raises:
        UsageError: if there is none, or its head is needed and untrained.
    """
    teacher = models.load_language_model(source)
    if needs_head and not teacher.has_trained_head:
        raise UsageError(
            f"The encoder in {source} has no trained head for masked tokens, "
            "so it cannot teach on a corpus. Make one with: kdkit pretrain "
            f"--model {source} --corpus FILE --run-dir RUN"
        )
    return teacher


def load_teachers(sources, task: Task) -> "list[models.LoadedModel]":
    """Loads teachers that give the same ids to the same words.

    Args:
        sources: list of what `load_teacher` takes.
        task: `kdkit.tasks.Task`.

    Raises:
        UsageError: with all that is wrong with any of them.
    """
    loaded = []
    with all_mistakes() as check:
        for source in sources:
            with check():
                loaded.append(load_teacher(source, task))
                _check_tokenizers(
                    loaded[0].tokenizer, loaded[-1].tokenizer, source
                )
    return loaded


def make_model(
    settings: ModelSettings,
    task: Task,
    teacher=None,
    pretrained=None,
    announce: Callable[[str], None] = lambda line: None,
):
    """Builds or loads the model to train.

    Args:
        settings: `ModelSettings`.
        task: `kdkit.tasks.Task`.
        teacher: `LoadedModel` of the teacher, or `None`. Its tokenizer is the
            model's.
        pretrained: where the run's pretrained encoder is, or `None`.
        announce: callable of a line about what the model starts from.

    Returns:
        Tuple of the model and its tokenizer.

    Raises:
        UsageError: if it does not fit the task or the teacher.
    """
    if settings.checkpoint is not None:
        loaded = models.load_classifier(settings.checkpoint, task.head)
        tokenizer = loaded.tokenizer
        if tokenizer is None and teacher is not None:
            tokenizer = teacher.tokenizer
        if teacher is not None:
            _check_tokenizers(teacher.tokenizer, tokenizer, settings.checkpoint)
        if tokenizer is None:
            raise UsageError(
                f"{settings.checkpoint} brings no tokenizer. Expected a run or "
                "a preset directory."
            )
        return loaded.model, tokenizer
    if settings.copy_from is not None:
        return _copy_blocks(settings, task, teacher, pretrained)
    tokenizer = teacher.tokenizer if teacher else _make_tokenizer(task)
    if settings.bilstm is not None:
        model = _make_bilstm(settings, task, tokenizer, announce)
        return model, tokenizer
    encoder = models.student(
        settings.config(), vocabulary_size=tokenizer.vocabulary_size()
    )
    # Refuses what none can read.
    tokenizer = models.family_tokenizer(encoder, tokenizer)
    return models.add_head(encoder, task.head, tokenizer), tokenizer


def _copy_blocks(settings, task, teacher, pretrained):
    """Builds a model out of blocks of the teacher or of another encoder."""
    if settings.copy_from != "teacher":
        place = settings.copy_from
        if place == "pretrained":
            place = pretrained
        encoder, tokenizer = models.load_encoder(place)
        if teacher is not None:
            _check_tokenizers(teacher.tokenizer, tokenizer, place)
    elif teacher is None:
        raise UsageError(
            'copy_from="teacher" needs a run with a teacher. Received: a run '
            "without one. Give the place of an encoder."
        )
    else:
        encoder, tokenizer = teacher.model, teacher.tokenizer
    encoder = models.copy_blocks(encoder, settings.copy_layers)
    return models.add_head(encoder, task.head, tokenizer), tokenizer


def _make_bilstm(sizes: ModelSettings, task, tokenizer, announce):
    """Builds a BiLSTM, its embeddings from word vectors if there are some."""
    settings = sizes.bilstm
    if task.head.kind != "sequence":
        raise UsageError(
            "A BiLSTM classifies sentences and pairs. Received: task "
            f"{task.name!r}, {task.kind.title}. Use a transformer as student."
        )
    vectors = found = None
    if settings.word_vectors is not None:
        width = data.word_vector_width(settings.word_vectors)
        if width != settings.embedding_dim:
            raise UsageError(
                f"The vectors in {settings.word_vectors} are {width} wide. "
                f"Received: embedding_dim={settings.embedding_dim}. Use --set "
                f"student.bilstm.embedding_dim={width}."
            )
        vectors, found = data.read_word_vectors(
            settings.word_vectors,
            data.words_of_pieces(tokenizer.get_vocabulary()),
        )
    model = models.student(
        sizes.config(),
        num_classes=task.num_classes,
        vocabulary_size=tokenizer.vocabulary_size(),
        num_texts=task.num_texts,
    )
    if vectors is not None:
        models.set_word_vectors(model, vectors, found)
        announce(
            f"{found.sum()} of {len(found)} word pieces start from a vector in "
            f"{settings.word_vectors}."
        )
    return model


def _make_tokenizer(task):
    """The tokenizer that a task's data make; most tasks have none."""
    if task.kind.vocabulary is not None:
        return keras_hub.tokenizers.BertTokenizer(
            list(task.kind.vocabulary), lowercase=False
        )
    if task.generate is None:
        raise UsageError(
            f"A model with random weights has no tokenizer for task "
            f"{task.name!r}. Expected a checkpoint that brings one. Pass "
            "--model, or --set model.checkpoint=PLACE."
        )
    return models.word_piece_tokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )


def _check_tokenizers(teacher, other, place):
    """Refuses a model of other token ids than the teacher's, by its place."""
    try:
        models.check_same_ids(teacher, other)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error
