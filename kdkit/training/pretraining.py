"""Pretraining: masked-language models from running text."""

import keras
import keras_hub

from kdkit import data
from kdkit import models
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.files import staged
from kdkit.models import LoadedModel
from kdkit.settings import to_dict
from kdkit.training.corpus_material import load_corpus
from kdkit.training.making import CORPUS_LENGTH
from kdkit.training.making import check_length
from kdkit.training.provenance import provenance
from kdkit.training.run_directory import open_run
from kdkit.training.run_log import finish
from kdkit.training.run_log import log_model
from kdkit.training.run_log import says_finished
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.stage_runner import Arm

ARM = "encoder"


def pretrain(settings: PretrainSettings, run_dir) -> None:
    """Trains a masked-language model and leaves it in `RUN/encoder/`.

    Args:
        settings: `PretrainSettings`.
        run_dir: string or path of a new or a started run directory.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes, before any
            training.
        RunError: if a loss is not finite.
    """
    with open_run(run_dir, to_dict(settings)) as run:
        if says_finished(run):
            return
        keras.utils.set_random_seed(settings.seed)
        with all_mistakes() as check:
            with check():
                settings.corpus.check()
            with check():
                loaded = _make_masked_lm(settings)
        check_length(
            settings.corpus.sequence_length, loaded.model, CORPUS_LENGTH
        )
        run.write_config(to_dict(settings), provenance())
        arm = Arm(
            name=ARM,
            model=loaded.model,
            teacher=None,
            material=load_corpus(
                settings.corpus, loaded.tokenizer, run.path / "corpus"
            ),
            seed=settings.seed,
            jit_compile=settings.jit_compile,
        )
        log_model(run, ARM, loaded.model, settings.model)
        with models.frozen_pooler(loaded.model.backbone):
            best = arm.run(run, settings.stages)
        path = run.path / ARM
        if not path.exists():
            with staged(path) as partial:
                models.save_masked_lm(
                    loaded.model,
                    loaded.tokenizer,
                    partial,
                    settings.corpus.sequence_length,
                )
        finish(run, {ARM: best})


def _make_masked_lm(settings) -> LoadedModel:
    """Loads or builds the model of a pretraining run."""
    model = settings.model
    if model.checkpoint is not None:
        return models.load_masked_lm(model.checkpoint)
    if model.copy_from is not None:
        encoder, tokenizer = models.load_encoder(model.copy_from)
        backbone = models.student_of_blocks(encoder, model.copy_layers)
    else:
        tokenizer = _tokenizer(settings)
        backbone = models.student(
            model.sizes(), vocabulary_size=tokenizer.vocabulary_size()
        )
    return LoadedModel(models.masked_lm(backbone), tokenizer, False)


def _tokenizer(settings):
    if settings.tokenizer is not None:
        return models.load_tokenizer(settings.tokenizer)
    if settings.corpus.files:
        raise UsageError(
            "A model with random weights needs a tokenizer. Expected the place "
            "of one: a run, a preset directory or a vocabulary file. Pass "
            "--tokenizer MODEL."
        )
    return keras_hub.tokenizers.BertTokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )
