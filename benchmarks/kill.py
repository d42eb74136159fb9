"""Runs killed at random moments end as runs that were never killed.

    python benchmarks/kill.py
    python benchmarks/kill.py --kills 50 --only tinybert gpt2

Every recipe of `kdkit list`, `train-teacher` and every kind of pretraining are
run on tiny data, saving after every step: once whole, and once more as real
processes that SIGKILL ends at random moments, each time begun again by the same
command. Then all files are compared: weights, logs, settings, TensorBoard's
points, byte for byte but for times of day, durations and the command line. One
process imports TensorFlow and forks the runs, before anything is computed.
"""

import argparse
import dataclasses
import functools
import importlib
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
import zipfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

from kdkit import data
from kdkit.cli import main as command_line
from kdkit.recipes import RECIPES
from kdkit.recipes import pretraining
from kdkit.recipes import smoke
from kdkit.settings import override
from kdkit.settings import to_dict
from kdkit.training import CorpusSettings
from kdkit.training import MassSettings
from kdkit.training import ModelSettings
from kdkit.training import PairSettings
from kdkit.training import PretrainSettings
from kdkit.training import SentenceSettings
from kdkit.training.control_stages import same_number_of_updates
from kdkit.training.control_stages import without_teacher
from kdkit.training.curves import read_points

TIMES = ("time", "seconds")
SAVING = ["checkpoint_minutes=0"]
TEACHER = "teacher"  # of the recipes that do not train one
VOCABULARY_SIZE = 300
LENGTH = 16


def recipe_settings(name, teacher):
    """A recipe on generated sentences, with dropout.

    One of them has a control arm and trains its teacher itself; the others
    learn from the one that is there.
    """
    settings = smoke.distillation(RECIPES[name])
    if name != "tinybert":
        settings = dataclasses.replace(settings, teacher=str(teacher))
    has_sizes = settings.student.copy_from is None
    changes = [
        *SAVING,
        "data.max_train_rows=64",
        *(f"stages.{n}.epochs=2" for n, _ in enumerate(settings.stages)),
    ]
    if has_sizes and settings.student.bilstm is None:
        changes.append("student.dropout=0.1")
    if settings.corpus is not None:
        changes.append("corpus.max_texts=120")
    if isinstance(settings.pretrained, PretrainSettings):
        changes += [
            "pretrained.corpus.max_texts=120",
            "pretrained.checkpoint_minutes=0",
        ]
    settings = override(settings, changes)
    if name == "tinybert":
        settings = dataclasses.replace(
            settings,
            teacher=tiny_teacher(),
            control=same_number_of_updates(settings.stages),
        )
    return settings


def tiny_teacher():
    """A classifier on generated sentences, with dropout."""
    return override(
        smoke.TEACHER,
        [
            *SAVING,
            "data.max_train_rows=64",
            "data.num_buckets=2",
            "model.dropout=0.1",
        ],
    )


def text_settings(folder):
    """Sentences, pairs and running text, and small models of each kind."""
    texts = [text for (text,) in _sentences(120)]
    files = {}
    for name, lines in (("en", texts[:60]), ("de", texts[60:])):
        files[name] = folder / f"text.{name}"
        files[name].write_text("".join(f"{line}\n" for line in lines))
    both = tuple(map(str, files.values()))
    languages = ("en", "de")
    return {
        "gpt2": (
            CorpusSettings(both[:1], sequence_length=LENGTH, held_out_every=9),
            CorpusSettings(both[1:], sequence_length=LENGTH, held_out_every=9),
            ModelSettings(
                family="gpt2",
                num_layers=2,
                hidden_dim=16,
                num_heads=2,
                intermediate_dim=32,
                max_sequence_length=LENGTH,
                dropout=0.1,
            ),
        ),
        "mass": (
            SentenceSettings(
                both,
                languages=languages,
                sequence_length=LENGTH,
                held_out_every=9,
            ),
            PairSettings(
                both,
                languages=languages,
                sequence_length=LENGTH,
                held_out_every=9,
            ),
            ModelSettings(
                mass=MassSettings(
                    1, 1, 8, 2, 16, max_sequence_length=LENGTH, dropout=0.1
                )
            ),
        ),
    }


def _sentences(count):
    examples = data.load_sentiment("train")
    return list(zip(*examples.texts, strict=True))[:count]


def shortened(stages):
    return tuple(
        dataclasses.replace(
            stage, epochs=1, learning_rate=1e-3, batch_tokens=256
        )
        for stage in stages
    )


def chain(family, texts):
    """LightPAFF's four steps as the settings of the last one."""
    general_text, task_text, model = texts[family]
    on_general, on_task = RECIPES["lightpaff"].for_families[family].stages
    common = {"jit_compile": False, "checkpoint_minutes": 0.0}
    on_pairs = family == "mass"
    of_step = {
        "pretrained": (
            general_text,
            pretraining.FROM_SCRATCH if on_pairs else pretraining.STAGES,
            {"model": model, "vocabulary_size": VOCABULARY_SIZE},
        ),
        "teacher": (
            task_text,
            pretraining.PAIRS if on_pairs else (without_teacher(on_task),),
            {"model": ModelSettings(checkpoint="pretrained")},
        ),
        "general": (
            general_text,
            (on_general,),
            {"model": model, "teacher": "pretrained", "recipe": "lightpaff"},
        ),
        "student": (
            task_text,
            (on_task,),
            {
                "model": ModelSettings(checkpoint="general"),
                "teacher": "teacher",
                "recipe": "lightpaff",
            },
        ),
    }
    steps = {
        name: PretrainSettings(
            corpus=text, stages=shortened(stages), **further, **common
        )
        for name, (text, stages, further) in of_step.items()
    }
    last = steps.pop("student")
    return dataclasses.replace(last, steps_before=steps)


def all_runs(folder):
    """The verb and the settings of each kind of run, by name."""
    texts = text_settings(folder)
    teacher = override(tiny_teacher(), ["stages.0.epochs=3"])
    runs = {
        "train-teacher": ("train-teacher", teacher),
        "in parts, bfloat16, kept": (
            "train-teacher",
            override(
                teacher,
                [
                    "dtype_policy=mixed_bfloat16",
                    "stages.0.gradient_accumulation_steps=4",
                    "keep_checkpoints=2",
                ],
            ),
        ),
        "float16, averaged": (
            "train-teacher",
            override(
                teacher,
                [
                    "dtype_policy=mixed_float16",
                    "stages.0.keep_best=false",
                    "stages.0.average_last=2",
                ],
            ),
        ),
        **{
            name: ("distill", recipe_settings(name, folder / TEACHER))
            for name in RECIPES
        },
        "masked tokens": (
            "pretrain",
            override(
                smoke.PRETRAINING,
                [*SAVING, "corpus.max_texts=120", "model.dropout=0.1"],
            ),
        ),
        "gpt2, four steps": ("distill", chain("gpt2", texts)),
        "mass, four steps": ("distill", chain("mass", texts)),
    }
    for name, (_, settings) in runs.items():
        (folder / f"{name}.json").write_text(json.dumps(to_dict(settings)))
    return {name: verb for name, (verb, _) in runs.items()}


def start(work, output):
    """Forks a process that calls a function; returns its number.

    All that computes is forked: once TensorFlow has computed something, what is
    forked of its process waits for ever.
    """
    number = os.fork()
    if number:
        return number
    status = 70
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        status = work()
        sys.stdout.flush()
    finally:
        os._exit(status)


def differences(first, second):
    """What differs between two run directories, as texts."""
    files = [
        {
            str(path.relative_to(run)): path
            for path in run.rglob("*")
            if path.is_file() and "tfevents" not in path.name
        }
        for run in (first, second)
    ]
    found = [
        f"only in one: {name}" for name in files[0].keys() ^ files[1].keys()
    ]
    for name in sorted(files[0].keys() & files[1].keys()):
        one, other = (
            content(of_run[name], run)
            for of_run, run in zip(files, (first, second), strict=True)
        )
        if one != other:
            found.append(f"different: {name}")
    points = [
        {
            folder.relative_to(run): values(folder)
            for folder in sorted(run.rglob("tensorboard/**/"))
        }
        for run in (first, second)
    ]
    if points[0] != points[1]:
        found.append("different: points of TensorBoard")
    return found


def write_differences(first, second, file):
    """Writes what `differences` finds; returns the exit status."""
    file.write_text(json.dumps(differences(first, second)))
    return 0


def content(file, run):
    """What is in a file but for times, durations, and where the run is."""
    if file.suffix == ".keras":
        with zipfile.ZipFile(file) as archive:
            return {
                name: archive.read(name)
                for name in archive.namelist()
                if name != "metadata.json"  # the date alone
            }
    if file.suffix not in (".json", ".jsonl"):
        return file.read_bytes()
    text = file.read_text().replace(str(run), "RUN")
    lines = text.splitlines() if file.suffix == ".jsonl" else [text]
    values_of_lines = [json.loads(line) for line in lines]
    for value in values_of_lines:
        if isinstance(value, dict):
            for name in (*TIMES, "date_saved"):
                value.pop(name, None)
            value.get("provenance", {}).pop("command", None)
            # What the doctor says of memory and disk is of the moment.
            for finding in value.get("findings", ()):
                finding.pop("found")
    return values_of_lines


def values(folder):
    """The points in a folder by tag and step."""
    from kdkit.backends import tf

    return {
        place: tf.compat.v1.Event.FromString(record)
        .summary.value[0]
        .simple_value
        for place, record in read_points(folder).items()
    }


def teacher_run(folder):
    """Yields the run of the recipes' teacher, which is never killed."""
    config, output = folder / f"{TEACHER}.json", folder / f"{TEACHER}.txt"
    config.write_text(json.dumps(to_dict(tiny_teacher())))
    place = str(folder / TEACHER)
    arguments = ["train-teacher", "--config", str(config), "--run-dir", place]
    status, _ = yield (lambda: command_line.main(arguments)), output, None
    if status:
        print(output.read_text())
        raise SystemExit("The teacher failed.")
    return []


def killed_runs(name, verb, folder, num_kills, rng):
    """Yields what is to be started and when it is to be killed.

    A generator of (function, output, seconds or `None`), which is sent the
    status and the seconds that it took. Returns the kills, each a dict.
    """
    config = folder / f"{name}.json"

    def command(place):
        arguments = [verb, "--config", str(config), "--run-dir", str(place)]
        return lambda: command_line.main(arguments)

    compared = folder / f"{name}, compared.json"
    whole = folder / f"{name}, whole"
    output = folder / f"{name}.txt"
    status, seconds = yield command(whole), output, None
    if status:
        print(output.read_text())
        raise SystemExit(f"{name} failed.")
    kills, of_run, turn = [], [], 0
    while True:
        place = folder / f"{name}, killed {turn}"
        after = None
        if len(kills) + len(of_run) < num_kills:
            after = rng.uniform(0, seconds)
        status, _ = yield command(place), output, after
        if status == -signal.SIGKILL:
            of_run.append({"run": name, "after_seconds": round(after, 2)})
            continue
        found = [f"status {status}"]
        if not status:
            compare = functools.partial(
                write_differences, whole, place, compared
            )
            status, _ = yield compare, output, None
            found = [f"comparison: status {status}"]
            if not status:
                found = json.loads(compared.read_text())
        for kill in of_run:
            kill["differences"] = found
        if of_run:
            told = "identical" if not found else "; ".join(found)
            print(f"{name}: {len(of_run)} kills, {told}", flush=True)
        kills += of_run
        of_run = []
        if not found:
            shutil.rmtree(place)
        turn += 1
        if len(kills) >= num_kills:
            if not any(kill["differences"] for kill in kills):
                shutil.rmtree(whole)
            return kills


def run_all(works, jobs):
    """Runs what generators ask for, some at a time; returns all kills."""
    waiting, running, kills = list(works), {}, []

    def begin(work, answer):
        try:
            function, output, after = work.send(answer)
        except StopIteration as stop:
            kills.extend(stop.value)
            return
        began = time.monotonic()
        until = None if after is None else began + after
        running[start(function, output)] = (work, began, until)

    while waiting or running:
        while waiting and len(running) < jobs:
            begin(waiting.pop(0), None)
        for number, (work, began, until) in list(running.items()):
            if until is not None and time.monotonic() >= until:
                os.kill(number, signal.SIGKILL)
            ended, status = os.waitpid(number, os.WNOHANG)
            if ended:
                del running[number]
                answer = os.waitstatus_to_exitcode(status)
                begin(work, (answer, time.monotonic() - began))
        time.sleep(0.02)
    return kills


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=14)
    parser.add_argument("--jobs", type=int, default=2, help="at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="names of runs")
    parser.add_argument("--keep", help="a folder for the runs that differ")
    options = parser.parse_args()
    # What a run imports, before it is forked.
    for module in ("distiller", "cli.repeating", "cli.resolving"):
        importlib.import_module(f"kdkit.{module}")
    importlib.import_module("kdkit.training.runner")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        runs = all_runs(folder)
        chosen = options.only or list(runs)
        unknown = sorted(set(chosen) - set(runs))
        if unknown:
            parser.error(f"no such runs: {unknown}. There are: {list(runs)}")
        began = time.monotonic()
        run_all([teacher_run(folder)], 1)
        kills = run_all(
            [
                killed_runs(
                    name,
                    runs[name],
                    folder,
                    options.kills * (place + 1) // len(chosen)
                    - options.kills * place // len(chosen),
                    random.Random(f"{options.seed} {name}"),
                )
                for place, name in enumerate(chosen)
            ],
            options.jobs,
        )
    identical = sum(not kill["differences"] for kill in kills)
    print(f"{identical} of {len(kills)} killed runs ended identical.")
    print(
        json.dumps(
            {
                "benchmark": "kill",
                "runs": chosen,
                "kills": len(kills),
                "identical": identical,
                "seconds": round(time.monotonic() - began, 1),
                "different": [k for k in kills if k["differences"]],
            }
        )
    )
    return 0 if identical == len(kills) == options.kills else 1


if __name__ == "__main__":
    sys.exit(main())
