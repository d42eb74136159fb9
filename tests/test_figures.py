"""Each figure in README.md and docs/measured/results.md has a source."""

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
    "LightPAFF, table 7, BERT": "83.4 86.9 89.7 90.8 92.0 92.9",
    "LightPAFF, tables 2 and 10": "7.09 95.9 95.5 95.4 93.9",
    "LightPAFF, table 3": ("47.3 17.0 77.0 129.6 31.2 70.0 22.8"),
    "LightPAFF, table 4": "6.87",
    "LightPAFF, table 7, GPT-2": "71.6 34.3 25.5 21.6 22.1 18.8",
    "LightPAFF, table 7, MASS": "23.8 26.2 28.4 29.5 31.0 32.2 4.6",
    "LightPAFF, table 5": "33.1 26.7 14.1 23.2 25.7",
    "LightPAFF, table 6": "5.22",
    "LightPAFF, table 11 and appendix 4": "91.3 93.5 93.4",
}
# What else prints them than `kdkit report`.
COMMANDS = {
    "0.80": "texts with unknown words, by benchmarks/references.py",
    "22.7 1.1 2.2 1.2 1.3 0.8 0.3": "parameters and standard errors",
    "92.9 92.7 92.5 91.7": "kdkit evaluate RUN --split test, by polyphones",
    "0.009 0.7 1.0 1.4 2.1": "differences of two rows",
    "0.64 0.16 0.10": "kdkit benchmark, by ptb_lightpaff_studies.sh",
    "28.1 8.16 0.682 3.4 4.4 13.1 24.1 41.0 14.1 4.32 6.7": (
        "kdkit benchmark, by sst2_lightpaff_studies.sh"
    ),
    "1086.5 1029.4 974.6 870.6 98.9 94.9 91.4 89.1": (
        "kdkit sweep, by ptb_lightpaff_studies.sh"
    ),
    "1769.1 1481.6 1421.3 1376.3": (
        "kdkit sweep, by sst2_lightpaff_studies.sh"
    ),
    "441.6 418.8 378.0": "perturb.py, by ptb_lightpaff_studies.sh",
    "76.7 76.2": "perturb.py, by sst2_lightpaff_studies.sh",
    "0.5": "λ in fine-tuning, of the recipe",
    "0.9": "million tokens, by kdkit pretrain",
}


def figures(text):
    return {found.replace(",", "") for found in FIGURE.findall(text)}


def parts(page):
    """A page's own text, and its tables."""
    before, _, rest = (ROOT / page).read_text("utf-8").partition(START_MARKER)
    tables, _, after = rest.partition(END_MARKER)
    text = re.sub(r"```.*?```", "", before + after, flags=re.DOTALL)
    return text, tables


@pytest.mark.parametrize("page", ["docs/measured/results.md"])
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
    text, _ = parts("docs/measured/results.md")
    listed = " ".join((*PAPERS.values(), *COMMANDS)).split()
    assert set(listed) <= figures(text)


def test_figures_of_the_readme_are_in_the_pages_of_measurements():
    text = re.sub(r"Python [\d.]+", "", parts("README.md")[0])
    measured = (ROOT / "docs/measured").glob("*.md")
    known = set().union(
        *(figures(page.read_text("utf-8")) for page in measured)
    )
    assert figures(text), "the README states no result"
    assert figures(text) <= known, (
        "These figures are on no page of docs/measured/. Correct them there "
        "first: the README only repeats."
    )
