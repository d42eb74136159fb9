"""Training: settings, stages and the runner behind the command line."""

from kdkit.training.cache_filling import fill_cache
from kdkit.training.corpus_settings import CorpusSettings
from kdkit.training.model_settings import BilstmSettings
from kdkit.training.model_settings import MassSettings
from kdkit.training.model_settings import ModelSettings
from kdkit.training.pretraining import pretrain
from kdkit.training.run_settings import DataSettings
from kdkit.training.run_settings import DistillSettings
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.run_settings import TeacherSettings
from kdkit.training.runner import distill
from kdkit.training.runner import train_teacher
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings
from kdkit.training.stages import ObjectiveSettings
from kdkit.training.stages import Stage
from kdkit.training.transfer_settings import AugmentedSettings
from kdkit.training.transfer_settings import AugmentSettings
from kdkit.training.transfer_settings import CacheSettings
from kdkit.training.transfer_settings import UnlabeledSettings

__all__ = [
    "AugmentSettings",
    "AugmentedSettings",
    "BilstmSettings",
    "CacheSettings",
    "CorpusSettings",
    "DataSettings",
    "DistillSettings",
    "MassSettings",
    "ModelSettings",
    "ObjectiveSettings",
    "PairSettings",
    "PretrainSettings",
    "SentenceSettings",
    "Stage",
    "TeacherSettings",
    "UnlabeledSettings",
    "distill",
    "fill_cache",
    "pretrain",
    "train_teacher",
]
