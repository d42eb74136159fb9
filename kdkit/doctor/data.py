"""Checks of the examples and texts that a run reads."""

import collections

from kdkit.data.encoding import tokenize
from kdkit.data.selection import normalized
from kdkit.data.tables import is_csv_quoted
from kdkit.data.unlabeled import read_unlabeled
from kdkit.doctor.examined import SAMPLE, TEXTS
from kdkit.doctor.findings import outcome_of, share
from kdkit.models import as_tokenizer

LEAST_WORDS = 5  # of a text; shorter ones are repeated by chance
QUOTED = 0.9  # share of a split's texts
FEWEST = 10  # texts
SHOWN = 5  # words
SHORTEST = 32  # tokens; files of a smaller length are hardly faster


def rows_kept_apart(run):
    """Examples of dev and test, or held-out texts, that are trained on.

    Ignores case, spaces and the order of a pair. A run itself removes augmented
    and unlabelled examples that dev or test contains, and logs their number.
    """
    train, *others = run.texts
    known = set(map(_compared, run.texts[train]))
    for split in others:
        rows = [
            row
            for row in map(_compared, run.texts[split])
            if run.task or sum(len(t.split()) for t in row) >= LEAST_WORDS
        ]
        inside = [row for row in rows if row in known]
        found = "are also trained on"
        if len(run.texts[train]) == TEXTS:
            found = f"are also among the first {TEXTS:,} to train on"
        if inside:
            found += f", such as {' | '.join(inside[0])[:60]!r}"
        advice = (
            "Remove these rows from the training data, or scores on them also "
            "measure memory."
        )
        yield _counted(len(inside), rows, split, found, advice, 0.01, 0.1)


def _compared(row):
    """Returns an example's texts as they are compared."""
    texts = normalized(row)
    return tuple(sorted(texts)) if len(texts) == 2 else texts


def quoted_cells(run):
    """Texts with the quotes of a CSV writer: around them, and doubled inside.

    A writer quotes all texts, or those that contain quotes: one of them is
    enough.
    """
    if run.task is None or run.task.head.kind != "sequence":
        return
    splits, unlabeled = dict(run.texts), run.config.unlabeled
    if unlabeled is not None:
        splits["the unlabelled text"] = read_unlabeled(
            unlabeled.files, unlabeled.columns, run.task.num_texts
        ).rows
    for split, rows in splits.items():
        texts = [text for row in rows for text in row]
        quoted = list(filter(is_csv_quoted, texts))
        whole = [t for t in texts if len(t) > 1 and t[0] == t[-1] == '"']
        if len(whole) >= max(QUOTED * len(texts), FEWEST):
            quoted = whole
        if quoted:
            found = f"have a CSV writer's quotes, such as {quoted[0][:60]}"
            advice = (
                "The files of built-in tasks are read without quoting, so "
                "these quotes are part of the text. Pass the table with "
                "--train, --text-column and --label-column, which read quotes. "
                "Or write it with csv.writer(quoting=csv.QUOTE_NONE, "
                "quotechar=None)."
            )
            yield _counted(len(quoted), texts, split, found, advice, 0)


def unknown_words(run):
    """Examples with words that the tokenizer has no token for."""
    tokenizer = run.kind.tokenizer
    unknown = as_tokenizer(tokenizer).unknown_token_id
    if unknown is None:
        return
    for split, rows in run.texts.items():
        some = rows[:: max(len(rows) // SAMPLE, 1)]
        lacking = _lacking((t for row in some for t in row), tokenizer, unknown)
        affected = [row for row in some if not lacking.isdisjoint(row)]
        counts = collections.Counter(
            word for row in affected for text in row for word in text.split()
        )
        words = _lacking(counts, tokenizer, unknown)
        common = [word for word, _ in counts.most_common() if word in words]
        shown = [f"{word[:20]} ({counts[word]})" for word in common[:SHOWN]]
        found = "have words that the vocabulary lacks"
        if shown:
            found += f", such as {', '.join(shown)}"
        advice = (
            "A model reads all of these words as one token. Use a model whose "
            "vocabulary covers the language, script, capitals and accents of "
            "these texts, or replace the words."
        )
        ruinous = 0.5 if len(some) >= FEWEST else 2  # never
        yield _counted(len(affected), some, split, found, advice, 0.01, ruinous)


def _lacking(texts, tokenizer, unknown):
    """Returns the texts with an unknown token."""
    ids = tokenize(texts, tokenizer)
    return {text for text, some in ids.items() if (some == unknown).any()}


def truncated_examples(run):
    """Examples of a task that are longer than the run's sequences."""
    if run.task is None:
        return
    for split, encoded in run.encoded.items():
        count, length = encoded.num_truncated, encoded.sequence_length
        found = f"have more than {length} tokens"
        longest = max(int(encoded.lengths.max()), SHORTEST)
        shorter = 1 << (longest - 1).bit_length()
        if shorter < length:
            found += (
                f"; the longest has {longest}: exported files are padded less, "
                f"and faster, with --max-length {shorter}"
            )
        advice = f"Read more of them: --max-length {2 * length}"
        yield _counted(count, encoded, split, found, advice, 0.1)


def _counted(count, rows, split, found, advice, warned, ruinous=2):
    """Returns a finding about a share of a split's examples."""
    total = len(rows)
    outcome = outcome_of(count / max(total, 1), warned, ruinous)
    found = f"{count} of {total} in {split} ({share(count, total)}) {found}."
    return outcome, found, advice
