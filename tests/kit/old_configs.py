"""A run's config in the spelling of goldens/configs.json.

It goes with that golden, once all runs have been compared.
"""

from kdkit.config.runs import ADAPTER
from kdkit.recipes.stages import same_number_of_updates
from kdkit.settings import to_dict

MODEL = {
    **dict.fromkeys(("bilstm", "checkpoint", "copy_from", "mass", "static")),
    **dict.fromkeys(("hidden_dim", "intermediate_dim", "num_heads")),
    **dict.fromkeys(("num_layers", "embedding_dim", "num_key_value_heads")),
    **{"copy_layers": [], "dropout": 0.1, "family": "bert"},
    "max_sequence_length": 512,
}


def in_old_spelling(values: dict, run_dir) -> dict:
    """Returns config.json as version 0.2 had it.

    Args:
        values: dict, the config.json of a run, in which all is resolved.
        run_dir: path of the run.
    """
    values = dict(values)
    replicas = values.pop("replicas", None)
    found = _settings(ADAPTER.validate_python(values), run_dir)
    return found if replicas is None else found | {"replicas": replicas}


def _settings(config, run_dir):
    of_kind = {"text": _text, "task": _task, "embedder": _embedder}
    training = config.training.model_dump(mode="json")
    return training | of_kind[config.kind](config, run_dir)


def _text(config, run_dir):
    corpus = config.corpus.model_dump(mode="json")
    del corpus["kind"]
    is_size = isinstance(config.tokenizer, int)
    steps = config.steps.items()
    recipe = config.recipe
    return {
        "verb": "pretrain",
        "corpus": corpus,
        "model": _student(config, run_dir),
        "stages": _stages(config.stages),
        "tokenizer": None if is_size else config.tokenizer,
        "vocabulary_size": config.tokenizer if is_size else None,
        "teacher": _place(config.teacher, run_dir),
        "recipe": None if recipe == "pretraining" else recipe,
        "cache": _json(config.cache),
        "steps_before": {name: _settings(one, run_dir) for name, one in steps},
    }


def _task(config, run_dir):
    same = {
        "data": _json(config.data),
        "stages": _stages(config.stages),
    }
    student = _student(config, run_dir)
    if not config.teacher:
        return same | {"verb": "train-teacher", "model": student}
    first, *more = (_made(config, one, run_dir) for one in config.teacher)
    control = ()
    if config.control:
        control = same_number_of_updates(config.stages)
    corpus, augmented = _json(config.corpus), _json(config.augmented)
    if corpus:
        del corpus["kind"]
    return same | {
        "verb": "distill",
        "recipe": config.recipe,
        "teacher": first,
        "more_teachers": more,
        "student": student,
        "control": _stages(control),
        "pretrained": _made(config, config.pretrained, run_dir),
        "corpus": corpus,
        "unlabeled": _json(config.unlabeled),
        "augmented": augmented and augmented | {"made_by": None},
        "general": None,
        "cache": _json(config.cache),
        "teacher_weights": [*config.teacher_weights],
        "parity": config.parity,
    }


def _embedder(config, run_dir):
    data = _json(config.data)
    scored = data.pop("scored") or {}
    del data["kind"]
    data |= {name: scored.get(name) for name in ("task", "data_dir", "table")}
    data["dev_split"] = scored.get("dev_split", "dev")
    if "tokenizer" in data:
        is_size = isinstance(data["tokenizer"], int)
        data["vocabulary_size"] = data["tokenizer"] if is_size else None
        data["tokenizer"] = None if is_size else data["tokenizer"]
    return {
        "verb": "distill",
        "recipe": config.recipe,
        "data": data,
        "teacher": _made(config, config.teacher, run_dir),
        "student": _student(config, run_dir),
        "stages": _stages(config.stages),
        "pooling": config.pooling,
        "parity": config.parity,
        "cache": _json(config.cache),
        "has_control": config.control,
    }


def _json(config):
    return config and config.model_dump(mode="json")


def _place(place, run_dir):
    """A place, with that of a step in place of its name."""
    name = (place or "").removeprefix("run:")
    return place if name == (place or "") else f"{run_dir}/{name}_run"


def _made(config, place, run_dir):
    """The settings of a step that makes a model, or a model's place."""
    name = (place or "").removeprefix("run:")
    if name in config.steps and name != place:
        return _settings(config.steps[name], run_dir)
    return place


def _student(config, run_dir):
    student = config.student
    kind, values = type(student).__name__.lower(), _json(student)
    if kind in ("bilstm", "mass", "static"):
        return MODEL | {kind: values}
    if kind == "layers":
        start = student.copy_from
        if config.kind == "text" and start == "teacher":
            start = config.teacher
        return MODEL | {"copy_from": start, "copy_layers": values["layers"]}
    if kind == "checkpoint":
        return MODEL | {"checkpoint": _place(student.checkpoint, run_dir)}
    return MODEL | values


def _stages(stages):
    found = []
    for one in map(to_dict, stages):
        del one["least_updates"]
        objectives = one["objectives"].items()
        one["objectives"] = [
            {"name": key, **value} for key, value in objectives
        ]
        found.append(one)
    return found
