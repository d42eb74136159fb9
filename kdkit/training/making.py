"""Makes a run's models: loads, builds, or copies an encoder's layers."""

from collections.abc import Callable

from kdkit import data, models
from kdkit.errors import UsageError
from kdkit.models.heads import copy_head
from kdkit.tasks import Task
from kdkit.training.model_settings import ModelSettings

DATA_LENGTH = "--set data.sequence_length="
CORPUS_LENGTH = "--set corpus.sequence_length="


def require_length(sequence_length: int, model, option: str) -> None:
    """Requires that sequences fit a model's positions."""
    require_context_length(sequence_length, models.num_positions(model), option)


def require_context_length(
    sequence_length: int, positions: int | None, option: str
) -> None:
    """Requires that sequences fit a model's positions before it is built."""
    if positions is not None and sequence_length > positions:
        raise UsageError(
            f"Sequences of {sequence_length} tokens are longer than the "
            f"model's {positions} positions. Use {option}{positions}."
        )


def load_teacher(source, task: Task) -> "models.LoadedModel":
    """Loads a fine-tuned teacher."""
    teacher = models.load_classifier(source, task.head)
    if not teacher.has_trained_head:
        raise UsageError(
            f"The teacher in {source} has no trained head of "
            f"{task.num_classes} classes for task {task.name!r}. Train one "
            "with kdkit train-teacher."
        )
    return teacher


def load_text_teacher(source, needs_head: bool) -> "models.LoadedModel":
    """Loads a pretrained encoder that teaches on running text."""
    teacher = models.load_language_model(source)
    if needs_head and not teacher.has_trained_head:
        raise UsageError(
            f"The encoder in {source} has no trained head for masked tokens. "
            "Train one with kdkit pretrain."
        )
    return teacher


def load_teachers(sources, task: Task) -> "list[models.LoadedModel]":
    """Loads teachers with the same token ids."""
    loaded = [load_teacher(source, task) for source in sources]
    for other in loaded[1:]:
        models.require_same_ids(loaded[0].tokenizer, other.tokenizer)
    return loaded


def make_model(
    settings: ModelSettings,
    task: Task,
    teacher=None,
    pretrained=None,
    announce: Callable[[str], None] = lambda line: None,
):
    """Builds or loads the model to train."""
    if settings.checkpoint is not None:
        loaded = models.load_classifier(settings.checkpoint, task.head)
        tokenizer = loaded.tokenizer
        if tokenizer is None and teacher is not None:
            tokenizer = teacher.tokenizer
        if teacher is not None:
            models.require_same_ids(teacher.tokenizer, tokenizer)
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
    return models.add_head(encoder, task.head, tokenizer), tokenizer


def _copy_blocks(settings, task, teacher, pretrained):
    """Builds a model from layers of the teacher or another encoder."""
    if settings.copy_from != "teacher":
        place = settings.copy_from
        if place == "pretrained":
            place = pretrained
        encoder, tokenizer = models.load_encoder(place)
        if teacher is not None:
            models.require_same_ids(teacher.tokenizer, tokenizer)
    else:
        encoder, tokenizer = teacher.model, teacher.tokenizer
    encoder = models.copy_blocks(encoder, settings.copy_layers)
    model = models.add_head(encoder, task.head, tokenizer)
    if settings.copy_from == "teacher":
        copy_head(model, teacher.model)
    return model, tokenizer


def _make_bilstm(sizes: ModelSettings, task, tokenizer, announce):
    """Builds a BiLSTM, with word vectors as embeddings if there are some."""
    settings = sizes.bilstm
    vectors = found = None
    if settings.word_vectors is not None:
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
    """The tokenizer from a task's data. Most tasks have none."""
    if task.kind.vocabulary is not None:
        return models.word_piece_tokenizer(
            list(task.kind.vocabulary), lowercase=False
        )
    if task.generate is None:
        raise UsageError(
            "A model with random weights has no tokenizer for task "
            f"{task.name!r}. Pass --model."
        )
    return models.word_piece_tokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )
