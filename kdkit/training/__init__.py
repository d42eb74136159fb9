"""Training: settings, stages and the runner behind the command line.

Names are imported when they are first used: stages are data that know no files,
and run where what the runner needs is not installed.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "AugmentSettings": "transfer_settings",
    "AugmentedSettings": "transfer_settings",
    "BilstmSettings": "model_settings",
    "CacheSettings": "transfer_settings",
    "CorpusSettings": "corpus_settings",
    "DataSettings": "data_settings",
    "DistillSettings": "run_settings",
    "MassSettings": "model_settings",
    "ModelSettings": "model_settings",
    "ObjectiveSettings": "stage_settings",
    "PairSettings": "sentence_settings",
    "PretrainSettings": "run_settings",
    "SentenceSettings": "sentence_settings",
    "Stage": "stages",
    "TeacherSettings": "run_settings",
    "UnlabeledSettings": "transfer_settings",
    "distill": "runner",
    "fill_cache": "cache_filling",
    "pretrain": "pretraining",
    "train_teacher": "runner",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
