"""Makes a run's models: loads, builds, or copies an encoder's layers."""

from collections.abc import Callable

from kdkit import data, models
from kdkit.errors import UsageError, all_mistakes
from kdkit.late import keras_hub
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
            "Sequences may be longer than the model's context. Received: "
            f"sequences of {sequence_length} tokens, a model with {positions} "
            f"positions. Use {option}{positions}."
        )


def validate_sizes(settings: ModelSettings) -> None:
    """Rejects impossible sizes before a model is built."""
    if settings.has_random_weights:
        models.student_config(settings.config())


def load_teacher(source, task: Task) -> "models.LoadedModel":
    """Loads a fine-tuned teacher."""
    teacher = models.load_classifier(source, task.head)
    models.require_num_classes(teacher.num_other_classes, task.head, source)
    if not teacher.has_trained_head:
        of_others = ""
        if task.head.kind == "sequence":
            of_others = (
                "; a Hugging Face checkpoint is one if its class ends with "
                "ForSequenceClassification"
            )
        data = f"--task {task.name}"
        if task.table is not None:
            texts = " ".join(task.table.text_columns)
            data = (
                f"--train {task.table.train} --text-column {texts} "
                f"--label-column {task.table.label_column}"
            )
        raise UsageError(
            f"The teacher in {source} is a pretrained encoder whose head for "
            f"task {task.name!r} is untrained. Expected a fine-tuned teacher "
            f"of {task.num_classes} classes{of_others}. Train one with: kdkit "
            f"train-teacher {data} --model {source} --run-dir RUN"
        )
    if teacher.tokenizer is None:
        raise UsageError(
            f"The teacher in {source} has no tokenizer. Expected a run or a "
            "preset directory, or a .keras file whose preprocessor has one."
        )
    return teacher


def load_text_teacher(source, needs_head: bool) -> "models.LoadedModel":
    """Loads a pretrained encoder that teaches on running text."""
    teacher = models.load_language_model(source)
    if needs_head and not teacher.has_trained_head:
        raise UsageError(
            f"The encoder in {source} has no trained "
            "masked-language-modelling head, so it cannot teach on a corpus. "
            f"Train one with: kdkit pretrain --model {source} --corpus FILE "
            "--run-dir RUN"
        )
    return teacher


def load_teachers(sources, task: Task) -> "list[models.LoadedModel]":
    """Loads teachers with the same token ids."""
    loaded = []
    with all_mistakes() as check:
        for source in sources:
            with check():
                loaded.append(load_teacher(source, task))
                _require_same_tokens(
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
    """Builds or loads the model to train."""
    if settings.checkpoint is not None:
        loaded = models.load_classifier(settings.checkpoint, task.head)
        tokenizer = loaded.tokenizer
        if tokenizer is None and teacher is not None:
            tokenizer = teacher.tokenizer
        if teacher is not None:
            _require_same_tokens(
                teacher.tokenizer, tokenizer, settings.checkpoint
            )
        if tokenizer is None:
            raise UsageError(
                f"{settings.checkpoint} has no tokenizer. Expected a run or "
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
    # Rejects places without any model.
    tokenizer = models.family_tokenizer(encoder, tokenizer)
    return models.add_head(encoder, task.head, tokenizer), tokenizer


def _copy_blocks(settings, task, teacher, pretrained):
    """Builds a model from layers of the teacher or another encoder."""
    if settings.copy_from != "teacher":
        place = settings.copy_from
        if place == "pretrained":
            place = pretrained
        encoder, tokenizer = models.load_encoder(place)
        if teacher is not None:
            _require_same_tokens(teacher.tokenizer, tokenizer, place)
    elif teacher is None:
        raise UsageError(
            'copy_from="teacher" needs a run with a teacher. Received: a run '
            "without one. Pass the place of an encoder."
        )
    else:
        encoder, tokenizer = teacher.model, teacher.tokenizer
    encoder = models.copy_blocks(encoder, settings.copy_layers)
    model = models.add_head(encoder, task.head, tokenizer)
    if settings.copy_from == "teacher":
        models.copy_head(model, teacher.model)
    return model, tokenizer


def _make_bilstm(sizes: ModelSettings, task, tokenizer, announce):
    """Builds a BiLSTM, with word vectors as embeddings if there are some."""
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
                f"The vectors in {settings.word_vectors} have {width} numbers. "
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
    """The tokenizer from a task's data. Most tasks have none."""
    if task.kind.vocabulary is not None:
        return keras_hub.tokenizers.BertTokenizer(
            list(task.kind.vocabulary), lowercase=False
        )
    if task.generate is None:
        raise UsageError(
            f"A model with random weights has no tokenizer for task "
            f"{task.name!r}. Expected a checkpoint with one. Pass "
            "--model, or --set model.checkpoint=PLACE."
        )
    return models.word_piece_tokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )


def _require_same_tokens(teacher, other, place):
    """Requires that a model has the teacher's token ids."""
    try:
        models.check_same_ids(teacher, other)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error
