"""Runs on text: masked words, next tokens, hidden spans and pairs.

On the shared runs: goldens, metrics from the saved weights, `kdkit evaluate`.
"""

import json
import shutil

import numpy as np
import pytest
from kit.adapter import command
from kit.helpers import log_softmax, read_events, stopped_after_epoch
from kit.run_checks import check_run
from kit.runs import LENGTH, PLAIN, RUNS, settings, sizes, stage

from kdkit import data, models, tasks

NAMES = [name for name, run in RUNS.items() if run.kind == "text"]
# A run on each kind of text, without the steps around it.
PLACES = {
    "masked": "pretrained",
    "next tokens": "next_tokens/general_run",
    "spans": "spans_and_pairs/general_run",
    "pairs": "spans_and_pairs/teacher_run",
}
# What a preset outside of a run is not saved with.
UNKNOWN = {
    "masked": ("--sequence-length", LENGTH),
    "next tokens": ("--sequence-length", 32),
    "spans": ("--languages", *data.GENERATED_LANGUAGES),
    "pairs": (),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_run_on_text_has_the_golden_numbers(name, workspace):
    check_run(workspace, name)


@pytest.fixture
def run_on(workspace, tmp_path):
    """A function that copies a run: `evaluate` notes in it what it measures."""

    def copy(kind):
        workspace.make(PLACES[kind].split("/")[0])
        return shutil.copytree(workspace.path / PLACES[kind], tmp_path / "run")

    return copy


def evaluate(*words):
    """What `kdkit evaluate` prints, and its last line as a dict."""
    answer = command(("evaluate", *words))
    assert answer.status == 0, answer
    return answer, json.loads(answer.out.splitlines()[-1])


def held_out_texts(kind, workspace):
    """The lines of each file, as the run's settings choose them."""
    if kind == "masked":
        return [(workspace.path / "corpus.txt").read_text().splitlines()[::10]]
    if kind == "next tokens":
        return [list(data.load_sentiment("train").texts[0][:200:20])]
    pairs = list(data.generated_pairs())[:100:20]
    return [list(side) for side in zip(*pairs, strict=True)]


def held_out_batches(kind, texts, tokenizer, folder):
    """The batches that a run measures on."""
    batching = data.FullBatches(16)
    if kind == "masked":
        packed = data.pack(texts[0], tokenizer, LENGTH, folder)
        rows = data.MaskedRows(packed, data.Masker(data.Masking(), tokenizer))
    elif kind == "next tokens":
        packed = data.pack_stream(texts[0], tokenizer, 32, folder)
        rows = data.PackedRows(packed)
    else:
        batching = data.TokenBatches(2048)
        languages = data.GENERATED_LANGUAGES
        sides = [
            data.encode_sentences(side, tokenizer, 64, language)
            for side, language in zip(texts, languages, strict=True)
        ]
        masker = data.SpanMasker(data.SpanMasking(), tokenizer)
        rows = (
            data.PairRows(*sides)
            if kind == "pairs"
            else data.SpanRows(data.join_sentences(*sides), masker)
        )
    return list(data.BatchStream(rows, batching).evaluation())


def sums(model, batches):
    """The loss, the hits and the number of the tokens that count."""
    total = np.zeros(3)
    for x, labels, weights in batches:
        logits = np.array(model(x), "float64")
        labels, counts = np.array(labels), np.array(weights) > 0
        chosen = np.take_along_axis(log_softmax(logits), labels[..., None], -1)
        total += (
            -chosen[..., 0][counts].sum(),
            (logits.argmax(-1) == labels)[counts].sum(),
            counts.sum(),
        )
    return total


def with_other_sources(batches):
    """Each target with the source before it, of its batch if that has more."""
    before = None
    for x, *rest in batches:
        x = {name: np.array(one) for name, one in x.items()}
        read = {name: x[name] for name in x if name.startswith("encoder")}
        length = len(read["encoder_token_ids"])
        if length > 1:
            order = np.arange(length) - 1
            before = {name: one[order] for name, one in read.items()}
        if before is not None:
            yield {**x, **before}, *rest
        before = {name: one[-1:] for name, one in read.items()}


@pytest.mark.parametrize("kind", PLACES)
def test_metrics_are_those_of_the_saved_model(
    kind, run_on, workspace, tmp_path
):
    run, texts = run_on(kind), held_out_texts(kind, workspace)
    loaded = models.load_language_model(run)
    tokenizer, model = loaded.tokenizer, loaded.model
    batches = held_out_batches(kind, texts, tokenizer, tmp_path / "packed")
    loss, hits, count = sums(model, batches)
    (finished,) = read_events(run, "run_finished")
    (best,) = finished["best"].values()
    metrics = best["metrics"]
    (accuracy,) = (name for name in metrics if name.endswith("accuracy"))
    expected = {"perplexity": np.exp(loss / count), accuracy: hits / count}
    if kind == "next tokens":
        words = sum(len(text.split()) + 1 for text in texts[0])
        expected["word_perplexity"] = np.exp(loss / words)
    assert metrics == pytest.approx(expected, rel=1e-4)
    if kind == "pairs":
        other = sums(model, with_other_sources(batches))
        expected["perplexity_of_other_sources"] = np.exp(other[0] / other[2])
    more = ("--num-beams", 1) if kind == "pairs" else ()
    answer, found = evaluate(run, *more)
    written = {
        name: found["metrics"].pop(name)
        for name in ("bleu", "chrf")
        if kind == "pairs"
    }
    assert found["metrics"] == pytest.approx(expected, rel=1e-4)
    (noted,) = read_events(run, "measurement")
    assert noted["metrics"] == found["metrics"] | written
    if kind == "pairs":
        ratio = expected["perplexity_of_other_sources"] / metrics["perplexity"]
        assert ("ignores its source" in answer.err) == (ratio < 1.05)
        check_written(run, texts, found, written, tmp_path)


def check_written(run, texts, found, metrics, folder):
    """That BLEU and chrF are those of what `kdkit generate` writes."""
    assert "tok:13a" in found["signatures"]["bleu"]
    (folder / "en").write_text("\n".join(texts[0]))
    words = ("--input", folder / "en", "--output", folder / "de")
    assert command(("generate", run, *words)).status == 0
    written = (folder / "de").read_text().splitlines()
    expected = tasks.generation_metrics(written, texts[1])
    assert metrics == pytest.approx(expected)


@pytest.mark.parametrize("kind", PLACES)
def test_any_text_is_measured_in_a_run_and_as_a_preset(
    kind, run_on, workspace, tmp_path
):
    run, texts = run_on(kind), held_out_texts(kind, workspace)
    files = [tmp_path / str(number) for number in range(len(texts))]
    for file, lines in zip(files, texts, strict=True):
        file.write_text("\n".join(lines))
    words = ["--pairs" if kind == "pairs" else "--corpus", *files]
    words += ["--num-beams", 1] if kind == "pairs" else []
    (preset,) = (
        path
        for name in ("encoder", "student", "encoder_decoder")
        if (path := run / name).is_dir()
    )
    preset = shutil.copytree(preset, tmp_path / "preset")
    _, in_run = evaluate(run, *words)
    _, outside = evaluate(preset, *words, *UNKNOWN[kind])
    assert in_run == outside
    (finished,) = read_events(run, "run_finished")
    (best,) = finished["best"].values()
    assert {
        name: in_run["metrics"][name] for name in best["metrics"]
    } == pytest.approx(best["metrics"], rel=1e-4)


def by_windows(model, stream, length, stride):
    """Loss and hits of every token but the first, each in its first window."""
    loss, hits, done = 0.0, 0, 0
    start = 0
    while done < len(stream) - 1:
        row = stream[start : start + length + 1]
        ids = row[np.newaxis, :-1]
        x = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
        new = slice(done - start, None)
        logits, labels = np.array(model(x))[0, new], row[1:][new]
        loss -= log_softmax(logits)[np.arange(len(labels)), labels].sum()
        hits += (logits.argmax(-1) == labels).sum()
        done += len(labels)
        start += stride
    return loss, hits


@pytest.mark.parametrize("stride", [8, 3])
def test_a_benchmark_is_one_document_in_windows(stride, run_on, tmp_path):
    run, file = run_on("next tokens"), tmp_path / "valid.txt"
    lines = ["it was n't black monday \n", " but the bank did n't <unk> \n"]
    file.write_text("".join(lines))
    _, found = evaluate(
        *(run, "--corpus", file, "--one-document", "--detokenizer", "ptb"),
        *("--sequence-length", 8, "--stride", stride),
    )
    loaded = models.load_language_model(run)
    text = "it wasn't black monday\nbut the bank didn't <unk>\n"
    assert text == "".join(
        data.DETOKENIZERS["ptb"](line.strip()) + "\n" for line in lines
    )
    end = loaded.tokenizer.end_token_id
    stream = np.array([end, *loaded.tokenizer(text), end])
    loss, hits = by_windows(loaded.model, stream, 8, stride)
    words = sum(len(line.split()) + 1 for line in lines)
    assert found["metrics"] == pytest.approx(
        {
            "perplexity": np.exp(loss / (len(stream) - 1)),
            "next_token_accuracy": hits / (len(stream) - 1),
            "word_perplexity": np.exp(loss / words),
        },
        rel=1e-4,
    )


def change_corpus(run, **changes):
    """Writes a run's settings with other ones of its text."""
    config = json.loads((run / "config.json").read_text())
    config["corpus"] |= changes
    (run / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("kind", "field", "share", "other"),
    [("masked", "masking", 0.15, 0.5), ("spans", "spans", 0.5, 1.0)],
)
def test_text_is_hidden_as_in_the_run(kind, field, share, other, run_on):
    run = run_on(kind)
    _, own = evaluate(run)
    change_corpus(run, **{field: {**own[field], "share": other}})
    _, changed = evaluate(run)
    assert (own[field]["share"], changed[field]["share"]) == (share, other)
    assert changed["metrics"] != pytest.approx(own["metrics"], rel=1e-4)


def test_text_that_changed_is_not_what_a_run_held_out(run_on, workspace):
    run, file = run_on("spans"), str(workspace.path / "corpus.txt")
    change_corpus(run, files=[file, shutil.copy(file, f"{run}/corpus.de")])
    answer = command(("evaluate", run))
    assert answer.status == 2
    assert "corpus has changed" in answer.err


def test_an_encoder_without_a_head_is_not_measured(workspace, tmp_path):
    encoder, tokenizer = models.load_encoder(workspace.make("pretrained"))
    for part in (encoder, tokenizer):
        part.save_to_preset(str(tmp_path / "encoder"))
    words = ("--corpus", workspace.path / "corpus.txt")
    answer = command(("evaluate", tmp_path / "encoder", *words))
    assert answer.status == 2
    assert "no trained masked-language-modelling head" in answer.err


def test_a_stopped_run_goes_on_to_the_same_weights(workspace, tmp_path, eager):
    whole, run = workspace.make("pretrained"), tmp_path / "run"
    words = workspace.words((*RUNS["pretrained"].words, "--run-dir", run))
    with stopped_after_epoch(1):
        assert command(words).status == 130
        raise KeyboardInterrupt
    assert command(words).status == 0
    assert_same_weights(run, whole, atol=1e-6)
    ours, theirs = (read_events(one, "epoch") for one in (run, whole))
    assert [event["logs"] for event in ours] == [
        pytest.approx(event["logs"], rel=1e-5) for event in theirs
    ]


def assert_same_weights(run, other, atol=0.0):
    ours, theirs = (
        models.load_language_model(one).model.get_weights()
        for one in (run, other)
    )
    for one, two in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, two, atol=atol, rtol=0)


def test_students_with_and_without_a_teacher_begin_with_the_same_weights(
    workspace, tmp_path, eager
):
    workspace.make("next_tokens")
    teacher = "@next_tokens/pretrained_run"
    common = (
        *("pretrain", "--corpus", "@corpus.txt", *PLAIN),
        *("--student", "lightpaff_gpt2_4_layer_en"),
        *sizes("student", 1, 16, 0.0),
        *settings(corpus__sequence_length=32, corpus__held_out_every=40),
        # Too small a rate to change a float32.
        *stage("pretraining", 1, 1e-30, 64),
    )
    runs = {
        "with": ("--recipe", "lightpaff", "--teacher", teacher),
        "without": ("--tokenizer", teacher),
    }
    for name, more in runs.items():
        workspace.run(*common, *more, "--run-dir", tmp_path / name)
    assert_same_weights(tmp_path / "with", tmp_path / "without")


@pytest.mark.large
@pytest.mark.parametrize("name", NAMES)
def test_a_cache_gives_the_same_losses(name, workspace, tmp_path, eager):
    whole, run = workspace.make(name), tmp_path / "run"
    words = (*RUNS[name].words, "--run-dir", run)
    workspace.run(*words, "--cache", tmp_path / "cache")
    for part in RUNS[name].models:
        ours, theirs = (
            [event["logs"] for event in read_events(one / part, "epoch")]
            for one in (run, whole)
        )
        assert ours == [pytest.approx(logs, rel=1e-4) for logs in theirs]
    assert read_events(run, "teacher_cache")


@pytest.mark.large
def test_a_sweep_on_text_is_by_held_out_perplexity(workspace, tmp_path, eager):
    workspace.make("pretrained")
    sweep, curves = tmp_path / "sweep", tmp_path / "curves.svg"
    words = (
        *("sweep", "lightpaff", "--teacher", "@pretrained"),
        *("--student", "@pretrained", "--corpus", "@corpus.txt", *PLAIN),
        *settings(epochs=1, corpus__sequence_length=LENGTH),
        *settings(corpus__held_out_every=10),
        *("--over", "soft_label_weight=0.0,1.0"),
        *("--curves", curves, "--run-dir", sweep),
    )
    (step,) = json.loads(workspace.run(*words).splitlines()[-1])["steps"]
    results = json.loads((sweep / "sweep.json").read_text())
    assert (results["metric"], results["split"]) == ("perplexity", "held_out")
    values = [trial["perplexity"] for trial in results["trials"]]
    assert values == sorted(values)
    assert step["metric"] == values[0]
    for trial in results["trials"]:
        (finished,) = read_events(sweep / trial["run"], "run_finished")
        metrics = finished["best"]["student"]["metrics"]
        assert metrics["perplexity"] == trial["perplexity"]
        config = json.loads((sweep / trial["run"] / "config.json").read_text())
        weights = [
            one["soft_label_weight"] for one in config["stages"].values()
        ]
        assert weights == list(trial["values"].values())
    assert "soft_label_weight" in curves.read_text()
