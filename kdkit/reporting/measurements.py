"""What `kdkit evaluate` noted in a run."""

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
        arm = event.get("arm") or records.trained_arm
        metrics = finite_numbers(event.get("metrics"))
        found.setdefault(_where(event), {})[arm] = metrics
    return found


def _where(event):
    """Which data, such as `"test.txt by rows of 128 tokens, 64 new"`."""
    if "split" in event:
        return str(event["split"])
    corpus = event.get("corpus") or ""
    if not isinstance(corpus, str):
        corpus = " and ".join(str(file).rsplit("/", 1)[-1] for file in corpus)
    text = f"{corpus} by rows of {event.get('sequence_length')} tokens"
    if event.get("stride"):
        text += f", {event['stride']} new"
    return text
