"""kdkit.cli.compiling: runs on GPUs compile whole steps, however short."""

import tensorflow as tf
from kit.adapter import resolved

from kdkit.cli import compiling


def test_a_short_run_on_a_gpu_compiles_its_steps(tmp_path, monkeypatch):
    table = tmp_path / "SST-2" / "train.tsv"
    table.parent.mkdir()
    table.write_text("sentence\tlabel\nfine\t1\n")
    words = ["distill", "pkd", "--task", "sst2", "--data-dir", tmp_path]
    words += ["--teacher", "t", "--student", "s", "--run-dir", "run"]
    words.append("stages.0.epochs=2")
    assert resolved(words)["jit_compile"] == "update"
    monkeypatch.setattr(compiling, "DRIVERS", (tmp_path,))
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    assert resolved(words)["jit_compile"] is True
