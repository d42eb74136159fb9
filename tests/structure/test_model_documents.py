"""The pages on models run and print what they show."""

import contextlib
import io
import re

import pytest
from kit.helpers import document

pytestmark = pytest.mark.usefixtures("eager")


def sections(page):
    """The code of each section of a page with what the page says it prints."""
    for part in re.split(r"^## ", document(page), flags=re.M)[1:]:
        blocks = re.findall(r"^```(python|text)\n(.*?)^```", part, re.M | re.S)
        yield from blocks


@pytest.mark.parametrize(
    "page", ["any_model", "sentence_embeddings", "students"]
)
def test_page_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, printed = {"__name__": f"page_{page}"}, io.StringIO()
    for language, text in sections(page):
        if language == "python":
            with contextlib.redirect_stdout(printed):
                exec(compile(text, page, "exec"), names)
        else:
            assert printed.getvalue() == text
            printed = io.StringIO()
    assert not printed.getvalue()
