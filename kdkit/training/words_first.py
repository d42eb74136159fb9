"""Unknown words of running text, counted before a run trains on it."""

from kdkit.doctor import RUINS
from kdkit.doctor import WARNING
from kdkit.doctor import Findings
from kdkit.training.run_log import DOCTOR
from kdkit.training.run_log import decide
from kdkit.training.text_examination import examine_words_of_text


def examine_words_first(run, corpus, tokenizer, force: bool) -> Findings | None:
    """Counts the texts of a corpus with unknown words, once for a run.

    Args:
        run: `RunDirectory`.
        corpus: as `examine_words_of_text` takes it.
        tokenizer: as `examine_words_of_text` takes it.
        force: bool. Whether to continue in any case.

    Returns:
        `Findings` for `log_findings`; `None` where there is nothing to do,
        they are logged, or another process does it.

    Raises:
        RunError: if half of the texts have unknown words.
    """
    if run.is_read_only or run.events(DOCTOR):
        return None
    findings = Findings(keeps_mistakes=False)
    examine_words_of_text("the corpus", corpus, tokenizer, findings)
    if not any(one.outcome in (WARNING, RUINS) for one in findings):
        return None
    decide(findings, force)
    return findings
