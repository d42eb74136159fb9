"""Figures in the text of docs/results.md and README.md come from somewhere."""

import pathlib
import re

import pytest

from kdkit.reporting.results import END_MARKER
from kdkit.reporting.results import START_MARKER

ROOT = pathlib.Path(__file__).parent.parent
# Decimals: counts of rows and blocks are not looked at.
FIGURE = re.compile(r"(?<![\w.,/`-])\d[\d,]*\.\d+(?![\w/`]|\.\d)")

# As the papers print them.
PAPERS = {
    "Patient KD, table 1": "86.4 87.5 86.9 94.3 72.6 72.5 71.1",
    "Patient KD, table 2": "92.0 91.9 79.9 79.5",
    "Patient KD, table 3": "71.2 61.1 64.7 66.6",
    "TinyBERT, table 2": "87.6 92.6 93.4",
    "TinyBERT, tables 5 to 7, CoLA": (
        "49.7 40.8 28.5 29.8 46.7 48.2 11.2 41.1 43.7 35.9 38.5"
    ),
    "TinyBERT, tables 5 to 7, MRPC": (
        "85.8 84.1 83.8 82.4 85.0 84.3 70.1 82.3 83.6 84.6"
    ),
    "TinyBERT, table 4": "82.8 83.3 86.3 50.6 50.5",
    "LightPAFF, table 3": "17.0",
    "LightPAFF, table 7, BERT": "83.4 86.9 89.7 90.8 92.0 92.9",
    "LightPAFF, table 11": "91.3",
}
# What else prints them than `kdkit report`.
COMMANDS = {
    "22.7 1.1 2.2 1.2 1.3 0.8 0.3": "parameters and standard errors",
    "92.9 92.7 92.5 91.7": "kdkit evaluate RUN --split test, by polyphones",
    "0.009 1.9": "differences of two rows",
    "0.5": "λ in fine-tuning, of the recipe",
    "0.9": "million tokens, by kdkit pretrain",
}


def figures(text):
    return set(FIGURE.findall(text))


def parts(page):
    """A page's own text, and its tables."""
    before, _, rest = (ROOT / page).read_text("utf-8").partition(START_MARKER)
    tables, _, after = rest.partition(END_MARKER)
    text = re.sub(r"```.*?```", "", before + after, flags=re.DOTALL)
    return text, tables


@pytest.mark.parametrize("page", ["docs/results.md"])
def test_figures_are_of_the_runs_of_papers_or_of_a_command(page):
    text, tables = parts(page)
    known = figures(tables)
    for listed in (*PAPERS.values(), *COMMANDS):
        known |= set(listed.split())
    assert not figures(text) - known, (
        "These figures are in no table of the kept runs. Correct them, or say "
        "in tests/test_figures.py what prints them."
    )


def test_figures_that_are_listed_are_used():
    text, _ = parts("docs/results.md")
    listed = " ".join((*PAPERS.values(), *COMMANDS)).split()
    assert set(listed) <= figures(text)
