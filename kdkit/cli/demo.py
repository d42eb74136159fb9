"""Runs every step from teacher to report in minutes, without data or network.

The demo generates English sentences about films, whose sentiment depends on
negation and contrast. It trains a transformer teacher, distils it with TinyBERT
and a control, exports LiteRT files in fp32, fp16 and int8, also of the teacher,
measures their latency, and writes a report. It runs the other verbs, with the
settings in kdkit/runs/smoke.py.

example:
  kdkit demo --run-dir runs/demo
"""

import dataclasses

from kdkit.cli.parser import option


@dataclasses.dataclass
class Options:
    """run"""

    run_dir: str = option(
        "where the run is saved, or continues. Defaults to runs/demo.",
        default="runs/demo",
        metavar="RUN",
    )


def run(options):
    import pathlib

    from kdkit.cli.loading import load_tensorflow
    from kdkit.cli.main import DONE, main
    from kdkit.cli.next_steps import no_next_steps
    from kdkit.runs import smoke
    from kdkit.runs.pipeline import Pipeline

    run_dir = pathlib.Path(options.run_dir)
    load_tensorflow()
    Pipeline(smoke.DEMO, run_dir).run()
    teacher = str(run_dir / "teacher_run")
    for command in (
        ["export", teacher, "--precision", "fp32", "--overwrite"],
        ["export", str(run_dir), "--overwrite"],
        ["benchmark", str(run_dir)],
        ["report", str(run_dir)],
    ):
        print(f"\n$ kdkit {' '.join(command)}", flush=True)
        with no_next_steps():
            status = main(command)
        if status != DONE:
            return status
    return DONE
