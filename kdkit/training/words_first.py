"""Unknown words, counted before a run without a `Subject` trains."""

from kdkit.doctor import RUINS
from kdkit.doctor import WARNING
from kdkit.doctor import Findings
from kdkit.training.examined_rows import encode_some
from kdkit.training.examined_rows import examine_words
from kdkit.training.run_log import DOCTOR
from kdkit.training.run_log import decide
from kdkit.training.task_data import read_train_and_dev
from kdkit.training.text_examination import examine_words_of_text


def examine_words_of_task(
    run, settings, task, tokenizer, force: bool
) -> Findings | None:
    """Counts a task's examples with unknown words, once for a run.

    Args:
        run: `RunDirectory`.
        settings: `DataSettings`.
        task: `kdkit.tasks.Task`.
        tokenizer: the tokenizer that the run encodes the examples with.
        force: bool. Whether to go on in any case.

    Returns:
        `Findings` for `log_findings`, or `None` where there is nothing to log.

    Raises:
        RunError: if half of the examples have unknown words.
    """
    if _is_examined(run):
        return None
    splits = zip(
        ("train", settings.dev_split),
        read_train_and_dev(task, settings),
        strict=True,
    )
    length = settings.sequence_length
    findings = Findings(keeps_mistakes=False)
    examine_words(
        {
            name: (rows, encode_some(task, rows, tokenizer, length))
            for name, rows in splits
        },
        tokenizer,
        findings,
    )
    return _decided(findings, force)


def examine_words_first(run, corpus, tokenizer, force: bool) -> Findings | None:
    """Counts the texts of a corpus with unknown words, once for a run.

    Args:
        run: `RunDirectory`.
        corpus: as `examine_words_of_text` takes it.
        tokenizer: as `examine_words_of_text` takes it.
        force: bool. Whether to go on in any case.

    Returns:
        As `examine_words_of_task`.

    Raises:
        RunError: if half of the texts have unknown words.
    """
    if _is_examined(run):
        return None
    findings = Findings(keeps_mistakes=False)
    examine_words_of_text("the text", corpus, tokenizer, findings)
    return _decided(findings, force)


def _is_examined(run):
    """Whether that was done, or another process does it."""
    return run.is_read_only or run.events(DOCTOR)


def _decided(findings, force):
    """The findings if there is something to do; stops a run that is ruined."""
    if not any(one.outcome in (WARNING, RUINS) for one in findings):
        return None
    decide(findings, force)
    return findings
