"""Tasks whose data make them pairs of texts, from tables."""

import json

import pytest
from kit.helpers import eager_steps, read_events
from kit.parallel import SIZES

from kdkit.cli.main import main, make_verb_parser
from kdkit.cli.resolving import pretrain_settings
from kdkit.errors import UsageError
from kdkit.tasks import generation_metrics

pytestmark = pytest.mark.usefixtures("quick_runs")

RIGHT = ["a dog runs", "two cats sleep", "the man eats", "two men walk"]
LONG = [f"{right} , and then it rains and {right}" for right in RIGHT]
COLUMNS = ("document", "summary")


def sets(*fields):
    return [word for field in fields for word in ("--set", field)]


@pytest.fixture
def table(tmp_path):
    """A table with a column that does not count, and the flags to read it."""
    file = tmp_path / "summarisation.tsv"
    lines = ["\t".join(("id", *COLUMNS))]
    for number, pair in enumerate(zip(LONG, RIGHT, strict=True)):
        lines.append("\t".join((str(number), *pair)))
    file.write_text("\n".join(lines) + "\n")
    return ["--pairs", str(file), "--pair-columns", *COLUMNS], RIGHT


@pytest.mark.large
def test_the_verbs_take_tables_of_pairs(table, tmp_path, capsys):
    flags, targets = table
    run = tmp_path / "run"
    with eager_steps():
        arguments = [
            *("pretrain", *flags, "--held-out", flags[1]),
            *("--student", "lightpaff_mass_6_4_layer"),
            *("--vocabulary-size", "290", "--run-dir", str(run)),
            *sets(
                *(
                    f"model.mass.{name}={getattr(SIZES, name)}"
                    for name in (
                        *("encoder_num_layers", "decoder_num_layers"),
                        *("hidden_dim", "num_heads", "intermediate_dim"),
                    )
                ),
                *("stages.0.epochs=1", "corpus.sequence_length=64"),
                "jit_compile=false",
            ),
        ]
        assert main(arguments) == 0
    (evaluation,) = read_events(run, "evaluation")
    assert evaluation["examples"] == len(targets)
    assert main(["evaluate", str(run), *flags, "--num-beams", "1"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    measured = json.loads(last)
    assert measured["examples"] == len(targets)
    assert measured["metrics"]["perplexity"] == pytest.approx(
        evaluation["metrics"]["perplexity"], rel=1e-5
    )
    assert main(["export", str(run), "--precision", "fp32"]) == 0
    (file,) = (run / "exports").iterdir()
    capsys.readouterr()
    assert main(["evaluate", str(file), *flags, "--num-beams", "1"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    of_file = json.loads(last)["metrics"]
    assert of_file["bleu"] == pytest.approx(measured["metrics"]["bleu"])
    assert of_file.keys() <= generation_metrics(["a"], ["a"]).keys()


def pretraining(*words):
    """The settings of a command of `kdkit pretrain`."""
    options = make_verb_parser("pretrain").parse_args(
        [
            *("--student", "lightpaff_mass_6_4_layer", "--run-dir", "run"),
            *("--vocabulary-size", "290", *words),
        ]
    )
    return pretrain_settings(options)


def test_spans_are_hidden_in_a_column_of_a_table(table):
    (_, file, _, source, target), targets = table
    settings = pretraining("--corpus", file, "--column", target)
    assert settings.model.mass is not None
    texts = settings.corpus.texts
    assert [*texts(held_out=True), *texts(held_out=False)] == targets
    with pytest.raises(UsageError, match="other"):
        [
            *pretraining("--corpus", file, "--column", "other").corpus.texts(
                False
            )
        ]
    with pytest.raises(UsageError, match="--column is not read"):
        pretraining(*table[0], "--column", source)
