"""Training: settings, data sources, and the training of stages.

Names are imported when they are first used, so that stages work without the
packages that runs need.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "AugmentSettings": "data_settings",
    "AugmentedSettings": "data_settings",
    "BilstmSettings": "model_settings",
    "CacheSettings": "data_settings",
    "CandidatesSettings": "candidate_settings",
    "CorpusSettings": "data_settings",
    "DataSettings": "data_settings",
    "DistillSettings": "kdkit.runs.settings",
    "EmbedderSettings": "kdkit.runs.embedder_settings",
    "MassSettings": "model_settings",
    "ModelSettings": "model_settings",
    "PairSettings": "sentence_settings",
    "PretrainSettings": "kdkit.runs.settings",
    "SentenceSettings": "sentence_settings",
    "StudentCheckpoint": "student_checkpoint",
    "TeacherSettings": "kdkit.runs.settings",
    "TextsSettings": "embedding_settings",
    "TranslationsSettings": "translation_settings",
    "UnlabeledSettings": "data_settings",
    "distill": "kdkit.runs.runner",
    "fill_cache": "kdkit.runs.runner",
    "pretrain": "kdkit.runs.runner",
    "run_on_arrays": "arrays",
    "train_teacher": "kdkit.runs.runner",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
