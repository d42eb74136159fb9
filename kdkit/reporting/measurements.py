"""What `kdkit evaluate` noted in a run."""

from kdkit.reporting.formatting import words
from kdkit.reporting.provenance import portable_path
from kdkit.reporting.records import RunRecords
from kdkit.reporting.records import finite_numbers


def measurements(records: RunRecords) -> dict[str, dict[str, dict]]:
    """Returns what was measured after the run, the last of each kind.

    Args:
        records: `RunRecords`.

    Returns:
        A dict from where, in words, to a dict from arm to metrics.
    """
    found = {}
    for event in records.events_of("measurement"):
        arm = event.get("arm")
        if arm is None and records.is_on_text:
            arm = records.trained_arm
        if arm is not None:  # or it is another model that lies in the run
            metrics = finite_numbers(event.get("metrics"))
            where = _where(event, records)
            if event.get("file"):
                where += f", {event['file']}"
            found.setdefault(where, {})[arm] = metrics
    return found


def _where(event, records):
    """Which data, such as `"test.txt by rows of 128 tokens, 64 new"`.

    Of what was written, also how, and sacrebleu's signature. Two measurements
    with the same words are of the same data and way.
    """
    if "split" in event:
        task = (records.config.get("data") or {}).get("task")
        of_task = "" if event.get("task") in (None, task) else event["task"]
        return f"{event['split']} {of_task and f'of {of_task}'}".strip()
    if event.get("pairs") is not None:
        return _where_written(event)
    corpus = event.get("corpus")
    if corpus is None:
        corpus = ""
    if not isinstance(corpus, str):
        corpus = _files(corpus, event)
    ways = [
        f"column {event['column']}" if event.get("column") else "",
        "one document" if event.get("one_document") else "",
        f"detokenizer {event['detokenizer']}"
        if event.get("detokenizer")
        else "",
    ]
    ways = ", ".join(filter(None, ways))
    text = f"{corpus}{ways and f' ({ways})'} by rows of"
    text += f" {event.get('sequence_length')} tokens"
    if event.get("stride"):
        text += f", {event['stride']} new"
    return text


def _where_written(event):
    """Which pairs, how they were written, and how that was measured."""
    pairs = _files(event["pairs"], event)
    signatures = (
        f"{words(name)} {signature}"
        for name, signature in (event.get("signatures") or {}).items()
    )
    beams = event.get("beam_size")
    how = " to ".join(event.get("languages") or ())
    how += f", {event.get('sequence_length')} tokens at most, "
    how = how.removeprefix(", ")
    how += "greedy" if beams == 1 else f"{beams} beams"
    if beams != 1:
        how += f", length penalty {event.get('length_penalty')}"
    return f"{pairs} ({'; '.join([how, *signatures])})"


def _files(files, event):
    """Their names, and which of their lines."""
    names = " and ".join(portable_path(str(file)) for file in files)
    names = names or "generated text"
    every = event.get("held_out_every")
    return f"one of {every} of {names}" if every else names
