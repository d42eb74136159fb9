"""What `kdkit evaluate` noted in a run."""

from kdkit.reporting.formatting import words
from kdkit.reporting.provenance import portable_path
from kdkit.reporting.records import RunRecords
from kdkit.reporting.records import finite_numbers

BERT_SHARES = (0.8, 0.1)  # of masks and random tokens, which need no words


def measurements(records: RunRecords) -> dict[str, dict[str, dict]]:
    """Returns what was measured after the run, the last of each kind.

    Args:
        records: `RunRecords`.

    Returns:
        A dict from where, in words, to a dict from arm to metrics.
    """
    measured = []
    for event in records.events_of("measurement"):
        arm = event.get("arm")
        if arm is None and records.is_on_text:
            arm = records.trained_arm
        if arm is not None:  # or it is another model that lies in the run
            where = _where(event, records)
            if event.get("file"):
                where += f", {event['file']}"
            measured.append((where, arm, event))
    measured = _told_apart(measured, "rows_digest")
    # Arms may have tokenizers of their own, which make other rows of a text.
    measured = _told_apart(measured, "data_digest", by_arm=True)
    found = {}
    for where, arm, event in measured:
        metrics = finite_numbers(event.get("metrics"))
        found.setdefault(where, {})[arm] = metrics
    return found


def _told_apart(measured, name, by_arm=False):
    """Numbers the versions of data whose content differs under one name.

    Version 1 is the one that was measured first. Logs of older versions of
    kdkit have no digest: their measurements are not numbered.
    """
    digests = {}
    for where, arm, event in measured:
        if name in event:
            key = (where, by_arm and arm)
            versions = digests.setdefault(key, [])
            if event[name] not in versions:
                versions.append(event[name])

    def numbered(where, arm, event):
        versions = digests.get((where, by_arm and arm), ())
        if name not in event or len(versions) < 2:
            return where
        return f"{where}, version {versions.index(event[name]) + 1} of the data"

    return [
        (numbered(where, arm, event), arm, event)
        for where, arm, event in measured
    ]


def _where(event, records):
    """Which data, such as `"test.txt by rows of 128 tokens, 64 new"`.

    Of what was written, also how, and sacrebleu's signature. Two measurements
    with the same words are of the same data and way, but for data of one name
    that differ: `measurements` tells those apart.
    """
    if "split" in event:
        return _where_in_a_task(event, records)
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
    hidden = what_is_hidden(event)
    return f"{text}, {hidden}" if hidden else text


def what_is_hidden(measured: dict) -> str:
    """Returns which tokens of a text a model was to predict, in words.

    Args:
        measured: dict. With `masking` of an encoder or `spans` of MASS.

    Returns:
        A text such as `"15 % of the tokens masked"`; empty for other models.
    """
    masking = finite_numbers(measured.get("masking"))
    spans = finite_numbers(measured.get("spans"))
    if "share" in masking:
        text = f"{100 * masking['share']:g} % of the tokens masked"
        if masking.get("whole_words"):
            text += " by whole words"
    elif "share" in spans:
        text = f"spans of {100 * spans['share']:g} % of a sentence hidden"
    else:
        return ""
    shares = masking or spans
    ways = shares.get("mask_share"), shares.get("random_share")
    if None in ways or ways == BERT_SHARES:
        return text
    masks, random = (f"{100 * share:g} %" for share in ways)
    return f"{text} ({masks} of them as masks, {random} as random tokens)"


def _where_in_a_task(event, records):
    """Which split, and what of it is not as the run itself read it."""
    data = records.config.get("data") or {}
    text = event["split"]
    if event.get("task") not in (None, data.get("task")):
        text += f" of {event['task']}"
    else:
        own = [one["digests"] for one in records.events_of("inputs")][:1]
        own = own[0].get(event["split"]) if own else None
        rows = event.get("rows_digest")
        if own and rows and rows != own:
            text += " of other data"
    length = event.get("sequence_length")
    if length not in (None, data.get("sequence_length")):
        text += f", cut to {length} tokens"
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
