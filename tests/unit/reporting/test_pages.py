"""The HTML page of a run: one file, its pictures, and nothing unescaped."""

import base64
import html.parser
import json
import re
import xml.etree.ElementTree as ElementTree

from kit.reports import own_table, page

from kdkit.reporting import render_report, write_report

VOID = {"meta", "br", "img"}


class Outline(html.parser.HTMLParser):
    """Collects tags and links; fails on tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        links = ("src", "href", "xlink:href")
        self.links += [value for name, value in attributes if name in links]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_report_is_one_page_that_loads_nothing(distillation_run):
    place = distillation_run.run_dir / "report.html"
    path = write_report([distillation_run.records], place)
    names = {file.name for file in distillation_run.run_dir.iterdir()}
    assert names == {"config.json", "metrics.jsonl", "report.html"}
    text = path.read_text(encoding="utf-8")
    found = Outline(text)
    start = "data:image/svg+xml;base64,"
    for link in found.links:
        assert link.startswith(start)
        ElementTree.fromstring(base64.b64decode(link.removeprefix(start)))
    # Metric against costs and over epochs, 3 + 1 losses of the student, 1 of
    # the control.
    assert len(found.links) == found.tags.count("img") == 7
    assert not {"script", "link", "iframe"} & set(found.tags)
    assert not re.search(r"@import|url\(", text)
    for shown in (
        "prefers-color-scheme: dark",
        "<h1>tinybert on sst2</h1>",
        "keeps 94.4\u00a0% of the teacher",
        "<td>83.7</td><td>94.3</td>",
        "<dt>Training time</dt><dd>1 h 31 min</dd>",
        "<td>3.1e-07</td>",
    ):
        assert shown in text, shown


def test_report_escapes_what_it_is_given(make_run):
    attack = "<script>alert('x')</script>"
    run = make_run(
        "run",
        recipe=attack,
        data=own_table(attack),
        teacher=[attack],
        provenance={"command": attack, "commit": attack},
    )
    run.log("model", arm="student", name=attack, parameters=1)
    run.epoch("student", attack, 1, **{attack: 1.0, "$\\frac{": 2.0})
    run.evaluation("student", attack, 1, 0.5, metrics={attack: 0.5})
    run.latency(
        run.export("student", attack, metrics={attack: 0.5}, file=attack), 1.0
    )
    text = render_report([run.records])
    assert "script" not in Outline(text).tags
    assert "&lt;script&gt;" in text


ANSWERS = {
    "examples": 872,
    "chance": {"accuracy": 0.509},
    "constant": "always “positive”",
    "classes": ("negative", "positive"),
    "confusion": ((350, 78), (63, 381)),
    "unit": "examples",
}
DIFFERENCE = {
    "text": ("a <b>fine</b> film",),
    "label": "positive",
    "student": "negative",
    "teacher": "positive",
    "student_share": 0.91,
    "teacher_share": 0.97,
}


def test_page_shows_data_chance_and_answers(distillation_run):
    lines = [
        {"arm": "teacher", **ANSWERS},
        {
            "arm": "student", **ANSWERS, "differing": 99,
            "differences": [DIFFERENCE],
        },
    ]  # fmt: skip
    (distillation_run.run_dir / "predictions.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in lines)
    )
    text = page(distillation_run.records)
    for shown in (
        "50.9 % accuracy (always “positive”)",
        "381",
        "On 99 of 872 examples.",
        "a <b>fine</b> film",
        "positive ✓ 97 %",
    ):
        assert shown in text, shown
