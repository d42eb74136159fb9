"""Settings for generated data: the smoke runs and the demo."""

import dataclasses

from kdkit.data import GENERATED_LANGUAGES, Masking
from kdkit.models.sizes import choose_blocks
from kdkit.recipes import pretraining, tinybert
from kdkit.recipes.recipe import Recipe, TokenVectors
from kdkit.recipes.sentence_embedding import with_prefixes
from kdkit.recipes.stages import Stage, same_number_of_updates, without_teacher
from kdkit.runs.embedder_settings import EmbedderSettings
from kdkit.runs.pipeline import Pipeline, language_model_pipeline
from kdkit.runs.settings import (
    DistillSettings,
    PretrainSettings,
    TeacherSettings,
)
from kdkit.tasks import get_task
from kdkit.training.candidate_settings import CandidatesSettings
from kdkit.training.data_settings import (
    CorpusSettings,
    DataSettings,
    counting_padding,
    with_one_length,
)
from kdkit.training.embedding_settings import TextsSettings
from kdkit.training.model_settings import (
    BilstmSettings,
    MassSettings,
    ModelSettings,
    model_settings,
)
from kdkit.training.sentence_settings import PairSettings, SentenceSettings
from kdkit.training.translation_settings import TranslationsSettings

TASK, SIMILARITY = "sentiment", "similarity"
VOCABULARY_SIZES = {  # for models on text: the bytes and a few merges
    "decoder": 300,
    "encoder_decoder": 400,
}


def _data(max_train_rows, num_buckets):
    return DataSettings(
        task=TASK,
        data_dir=None,
        sequence_length=32,
        max_train_rows=max_train_rows,
        num_buckets=num_buckets,
    )


def _model(num_layers, hidden_dim, **more):
    # Without dropout, because models this small learn slowly with it.
    return ModelSettings(
        num_layers=num_layers,
        hidden_dim=hidden_dim,
        num_heads=4,
        intermediate_dim=4 * hidden_dim,
        max_sequence_length=32,
        dropout=0.0,
        **more,
    )


def _mass(num_layers, hidden_dim):
    return ModelSettings(
        mass=MassSettings(
            encoder_num_layers=num_layers,
            decoder_num_layers=num_layers,
            hidden_dim=hidden_dim,
            num_heads=4,
            intermediate_dim=4 * hidden_dim,
            max_sequence_length=64,
            dropout=0.0,
        )
    )


def _teacher(model, data, epochs, learning_rate):
    return TeacherSettings(
        data=data,
        model=model,
        stages=(
            Stage(
                name="fine_tuning",
                epochs=epochs,
                learning_rate=learning_rate,
                hard_label_weight=1.0,
            ),
        ),
        jit_compile=False,
    )


def short(stages):
    """Returns the stages with one epoch, and a rate for random weights."""
    return tuple(
        dataclasses.replace(stage, epochs=1, learning_rate=1e-3)
        for stage in stages
    )


# One batch length: each length needs a trace of the step, which takes most of
# the time.
TEACHER = _teacher(_model(3, 32), _data(256, 1), 1, 1e-3)
PRETRAINING = PretrainSettings(
    corpus=CorpusSettings(sequence_length=32, held_out_every=20, max_texts=800),
    model=_model(3, 32),
    stages=short(pretraining.STAGES),
    jit_compile=False,
)


def _on_corpus(stages):
    return [stage for stage in stages if stage.data == "corpus"]


def _pretrained(stages):
    """A tiny pretrained encoder, if stages on a corpus learn from one."""
    if any(stage.objectives for stage in _on_corpus(stages)):
        return PRETRAINING
    return None


def _student(recipe):
    """A tiny model like the recipe's preset, or two layers of the teacher."""
    if isinstance(recipe.student, str):
        if model_settings(recipe.student).bilstm is not None:
            return ModelSettings(bilstm=BilstmSettings(8, 16, 16, dropout=0.0))
        return _model(2, 16)
    blocks = choose_blocks(recipe.student.rule, TEACHER.model.num_layers, 2)
    return ModelSettings(copy_from="teacher", copy_layers=blocks)


def distillation(recipe: Recipe, parity: str | None = None) -> DistillSettings:
    """Returns a recipe's settings with one short epoch per stage."""
    stages = short(recipe.stages_for(get_task(TASK), parity))
    corpus = None
    if _on_corpus(stages):
        corpus = dataclasses.replace(
            PRETRAINING.corpus, masking=Masking(share_of=recipe.mask_share_of)
        )
    settings = DistillSettings(
        recipe=recipe.name,
        data=TEACHER.data,
        teacher=TEACHER,
        student=_student(recipe),
        pretrained=_pretrained(stages),
        corpus=corpus,
        stages=stages,
        parity=parity,
        jit_compile=False,
    )
    return with_one_length(settings) if counting_padding(stages) else settings


EMBEDDER_DATA = {
    "texts": TextsSettings(),
    "translations": TranslationsSettings(
        held_out_every=20, vocabulary_size=200
    ),
}


def embedder(recipe: Recipe, parity: str | None = None) -> EmbedderSettings:
    """Returns the settings of a tiny sentence encoder, one short epoch long."""
    stages = short(recipe.variant(parity).stages)
    if stages[0].data == CandidatesSettings.stage_data:
        return _retriever(recipe, stages, parity)
    teacher = dataclasses.replace(PRETRAINING, model=_model(3, 48))
    data = EMBEDDER_DATA[recipe.stages[0].data]
    student = ModelSettings(copy_from="teacher", copy_layers=(1, 3))
    if isinstance(recipe.student, TokenVectors):
        student = ModelSettings(
            static=dataclasses.replace(recipe.student, dimensions=16)
        )
    return EmbedderSettings(
        recipe=recipe.name,
        data=dataclasses.replace(
            data,
            task=SIMILARITY,
            sequence_length=32,
            num_buckets=1,
            max_texts=800,
        ),
        teacher=teacher,
        student=student,
        stages=with_prefixes(stages, (24, 12)),
        pooling="mean",
        parity=parity,
        jit_compile=False,
    )


def _retriever(recipe, stages, parity):
    """A tiny sentence encoder from a tiny cross-encoder of the run."""
    pairs = dataclasses.replace(TEACHER.data, task=SIMILARITY)
    return EmbedderSettings(
        recipe=recipe.name,
        data=CandidatesSettings(
            sequence_length=32, pair_length=32, num_buckets=1
        ),
        teacher=dataclasses.replace(TEACHER, data=pairs, model=_model(3, 48)),
        student=ModelSettings(copy_from="teacher", copy_layers=(1, 3)),
        stages=stages,
        parity=parity,
        jit_compile=False,
    )


def on_text(recipe: Recipe, run_dir, caches=None) -> Pipeline:
    """Returns a recipe on text alone, with one short epoch per stage."""
    sizes = model_settings(recipe.student)
    if sizes.mass is not None:
        kind = "encoder_decoder"
        text = {
            "languages": GENERATED_LANGUAGES,
            "held_out_every": 20,
            "max_texts": 240,
            "sequence_length": 64,
        }
        general, task = SentenceSettings(**text), PairSettings(**text)
        teacher, student = _mass(2, 32), _mass(1, 16)
        batch_tokens = 1024
    else:
        kind = "decoder"
        # A byte-pair token is a few letters, so longer sequences give as many
        # examples as the encoders have.
        general = task = dataclasses.replace(PRETRAINING.corpus, max_texts=200)
        teacher = _model(2, 32, family=sizes.family)
        student = _model(1, 16, family=sizes.family)
        batch_tokens = Stage.batch_tokens
    first, on_general, on_task = (
        dataclasses.replace(stage, batch_tokens=batch_tokens)
        for stage in (*PRETRAINING.stages, *short(recipe.stages))
    )
    return language_model_pipeline(
        dataclasses.replace(recipe, stages=(on_general, on_task)),
        run_dir,
        general,
        task,
        teacher,
        student,
        caches=caches,
        first_stages=(first,),
        teacher_stages=(without_teacher(on_task),),
        vocabulary_size=VOCABULARY_SIZES[kind],
        jit_compile=False,
    )


def _demo_stages():
    """TinyBERT's stages, short and with learning rates for random weights."""
    epochs = {"intermediate_layer": 3, "prediction_layer": 3}
    return tuple(
        dataclasses.replace(
            stage, epochs=epochs[stage.name], learning_rate=1e-3
        )
        for stage in tinybert.RECIPE.stages_for(get_task(TASK))
    )


DEMO = DistillSettings(
    recipe=tinybert.RECIPE.name,
    data=_data(None, 2),
    teacher=_teacher(_model(4, 96), _data(None, 2), 4, 5e-4),
    student=_model(2, 32),
    stages=_demo_stages(),
    control=same_number_of_updates(_demo_stages()),
    jit_compile=False,
)
