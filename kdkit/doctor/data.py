"""Checks of the examples and texts that a run reads."""

import collections

from kdkit.data.encoding import tokenize
from kdkit.data.selection import normalized
from kdkit.data.tables import is_csv_quoted
from kdkit.data.unlabeled import read_unlabeled
from kdkit.doctor.examined import SAMPLE
from kdkit.doctor.findings import OK, WARNING, outcome_of, share
from kdkit.models import as_tokenizer

LEAST_WORDS = 5  # of a text; shorter ones are repeated by chance
QUOTED = 0.9  # share of a split's texts
FEWEST = 10  # texts
TRUNCATED = 0.1  # share of a split's examples
SHOWN = 5  # words
UNQUOTE = (
    "The files of built-in tasks are read without quoting, so these quotes are "
    "part of the text. Pass the table with --train, --text-column and "
    "--label-column, which read quotes. Or write it without quoting: "
    "csv.writer with quoting=csv.QUOTE_NONE and quotechar=None."
)


def rows_kept_apart(run):
    """Examples of dev and test, or held-out texts, that are trained on.

    Ignores case, spaces and the order of a pair. A run itself removes augmented
    and unlabelled examples that dev or test contains, and logs their number.
    """
    train, *others = run.texts
    known = set(map(_compared, run.texts[train]))
    worst, parts, first = 0.0, [], None
    for split in others:
        rows = [
            row
            for row in map(_compared, run.texts[split])
            if run.task or sum(len(t.split()) for t in row) >= LEAST_WORDS
        ]
        inside = [row for row in rows if row in known]
        parts.append(f"{len(inside)} of {len(rows)} in {split}")
        worst = max(worst, len(inside) / max(len(rows), 1))
        first = first or next(iter(inside), None)
    if not parts:
        return
    found, advice = f"Also trained on: {', '.join(parts)}.", ""
    if first is not None:
        found = f"{found} For example {' | '.join(first)[:60]!r}."
        advice = (
            "Remove these rows from the training data, or scores on them also "
            "measure memory."
        )
    yield outcome_of(worst, 0.01, 0.1), found, advice


def _compared(row):
    """Returns an example's texts as they are compared."""
    texts = normalized(row)
    return tuple(sorted(texts)) if len(texts) == 2 else texts


def quoted_cells(run):
    """Texts with the quotes of a CSV writer: around them, and doubled inside.

    It quotes texts with quotes, of which one is enough, or all texts.
    """
    if run.task is None or run.task.head.kind != "sequence":
        return
    splits, unlabeled = dict(run.texts), run.config.unlabeled
    if unlabeled is not None:
        read = read_unlabeled(
            unlabeled.files, unlabeled.columns, run.task.num_texts
        )
        splits["the unlabelled text"] = read.rows
    for split, rows in splits.items():
        texts = [text for row in rows for text in row]
        quoted = list(filter(is_csv_quoted, texts))
        whole = [t for t in texts if len(t) > 1 and t[0] == t[-1] == '"']
        if len(whole) >= max(QUOTED * len(texts), FEWEST):
            quoted = whole
        if quoted:
            found = (
                f"A CSV writer quoted {len(quoted)} of {len(texts)} texts of "
                f"{split} ({share(len(quoted), len(texts))}), such as "
                f"{quoted[0][:60]}."
            )
            yield WARNING, found, UNQUOTE


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
        found = (
            f"{len(affected)} of {len(some)} examples of {split} "
            f"({share(len(affected), len(some))}) have words that the "
            "vocabulary lacks."
        )
        part = len(affected) / max(len(some), 1)
        if not affected:
            yield OK, found
            continue
        counts = collections.Counter(
            word for row in affected for text in row for word in text.split()
        )
        lacking = _lacking(counts, tokenizer, unknown)
        common = [word for word, _ in counts.most_common() if word in lacking]
        words = ", ".join(
            f"{one[:20]} ({counts[one]})" for one in common[:SHOWN]
        )
        yield (
            outcome_of(part, 0.01, 0.5),
            f"{found} The commonest: {words}.",
            "A model reads all of these words as one token. Use a model whose "
            "vocabulary covers the language, script, capitals and accents of "
            "these texts, or replace the words.",
        )


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
        found = (
            f"{count} of {len(encoded)} examples of {split} "
            f"({share(count, len(encoded))}) have more than {length} tokens."
        )
        if count < TRUNCATED * len(encoded):
            yield OK, found
        else:
            yield (
                WARNING,
                found,
                f"Read more of them: --max-length {2 * length}",
            )
