"""A run's student as a directory for transformers, by kdkit export."""

import json
import shutil

from kit.helpers import read_events
from kit.references import reference

from kdkit.cli.main import main


def test_export_for_transformers_is_evaluated_like_the_student(
    finished_run, tmp_path, capsys
):
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    command = ["export", str(run), "--format", "hf", "--license", "mit"]
    assert main(command) == 0
    (event,) = read_events(run, "export")
    assert event["file"] == "exports/student-hf"
    folder = run / event["file"]
    card = (folder / "README.md").read_text("utf-8")
    assert 'license: "mit"' in card
    assert "| student-hf | Hugging Face checkpoint | fp32 |" in card
    assert "pipeline(\"text-classification\", model='student-hf')" in card
    transformers = reference("transformers")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder
    )
    assert list(model.config.id2label.values()) == ["negative", "positive"]
    capsys.readouterr()
    assert main(["evaluate", str(folder)]) == 0
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert result["metrics"] == event["metrics"]
    (folder / "README.md").write_text("mine")
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err
