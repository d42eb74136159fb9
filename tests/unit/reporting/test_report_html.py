import base64
import html.parser
import re
import xml.etree.ElementTree as ElementTree

from kdkit.reporting import render_report, write_report
from kdkit.reporting.records import read_run

VOID = {"meta", "br", "img"}


class Outline(html.parser.HTMLParser):
    """Collects tags and links; fails on tags that do not match."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.tags = []
        self.links = []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self._collect(attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self._collect(attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def _collect(self, attributes):
        for name, value in attributes:
            if name in ("src", "href", "xlink:href"):
                self.links.append(value)


def pictures(found):
    """The SVG files in a page, which must be well-formed XML."""
    start = "data:image/svg+xml;base64,"
    assert all(link.startswith(start) for link in found.links)
    return [
        ElementTree.fromstring(base64.b64decode(link.removeprefix(start)))
        for link in found.links
    ]


def outline(text):
    parser = Outline()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_report_is_one_page_that_loads_nothing(distillation_run):
    path = write_report(distillation_run.run_dir)
    assert path == distillation_run.run_dir / "report.html"
    names = {file.name for file in distillation_run.run_dir.iterdir()}
    assert names == {"config.json", "metrics.jsonl", "report.html"}
    text = path.read_text(encoding="utf-8")
    found = outline(text)
    # Metric against latency and size, metric over epochs, 3 + 1 losses of the
    # student, 1 of the control.
    assert len(pictures(found)) == found.tags.count("img") == 8
    assert not {"script", "link", "iframe"} & set(found.tags)
    assert not re.search(r"@import|url\(|https?:", text)
    assert "prefers-color-scheme: dark" in text
    assert "<h1>tinybert on sst2</h1>" in text
    assert "keeps 94.4\u00a0% of the teacher" in text
    assert "<td>83.7</td><td>94.3</td>" in text
    assert "kdkit train-teacher --task sst2 --seed 1\nkdkit distill" in text
    assert "<details><summary>Configuration</summary>" in text
    assert "<dt>Student, intermediate layer</dt><dd>30 min</dd>" in text
    assert "<td>3.1e-7</td>" in text


def test_report_escapes_what_it_is_given(make_run):
    attack = "<script>alert('x')</script>"
    run = make_run(
        "run",
        {
            "recipe": attack,
            "data": {"task": attack},
            "teacher": attack,
            "provenance": {"command": attack, "commit": attack},
        },
    )
    run.log("model", arm="student", name=attack, parameters=1)
    run.epoch("student", attack, 1, **{attack: 1.0, "$\\frac{": 2.0})
    run.evaluation("student", attack, 1, 0.5, metrics={attack: 0.5})
    run.latency(
        run.export("student", attack, metrics={attack: 0.5}, file=attack), 1.0
    )
    text = render_report(read_run(run.run_dir))
    found = outline(text)
    assert "script" not in found.tags
    assert "&lt;script&gt;" in text
