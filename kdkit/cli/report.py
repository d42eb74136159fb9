"""Writes RUN/report.html, one self-contained page, and prints its table.

Of several runs, one page also shows all next to each other: comparison.html in
the first run's directory.

--markdown writes the tables of all runs into a file. Runs that differ only in
their seed share a table, with the mean and the sample standard deviation.

example:
  kdkit report runs/tinybert
  kdkit report runs/tinybert runs/pkd
  kdkit report runs/tinybert_seed* runs/pkd_seed* --markdown results.md
  kdkit report runs/pkd runs/vanilla_kd --curves curves.svg
  kdkit report runs/small runs/large --trade-off sizes.svg
"""

import os
import pathlib

from kdkit import reporting
from kdkit.cli.verb_flags import VerbParser, flag, many
from kdkit.io.files import write_text

FLAGS = {
    "markdown": flag(
        "also write the tables of all runs into this file", metavar="FILE"
    ),
    "curves": flag(
        "also plot the students' metric per epoch, on training data and dev",
        metavar="FILE.svg",
    ),
    "trade_off": flag(
        "also plot the models' metric against parameters. If files were "
        "timed, also against latency.",
        metavar="FILE.svg",
    ),
}


def run(words):
    """Prints the tables of runs and writes their pages."""
    runs = {"runs": many("run directories", metavar="RUN")}
    options = VerbParser("report", __doc__, runs, {"pages": FLAGS}).parse_args(
        words
    )
    runs = [reporting.read_run(place) for place in options.runs]
    for records in runs:
        reporting.print_report(records)
        if os.access(records.run_dir, os.W_OK):
            print(f"Written: {reporting.write_report(records)}")
        else:
            print(f"{records.run_dir} is read-only: no page is written.")
    if len(runs) > 1 and os.access(runs[0].run_dir, os.W_OK):
        page = reporting.write_comparison(
            runs, runs[0].run_dir / "comparison.html"
        )
        print(f"Written: {page}")

    def write(file, text):
        write_text(pathlib.Path(file), text)
        print(f"Written: {file}")

    if options.markdown:
        write(options.markdown, reporting.markdown_tables(runs))
    if options.curves:
        write(options.curves, _on_white(reporting.plot_learning_curves(runs)))
    if options.trade_off:
        groups = reporting.group_by_seed(runs)
        write(options.trade_off, _on_white(reporting.plot_trade_off(groups)))


def _on_white(svg):
    """The picture with a background: pages that show the file may be dark."""
    head, tag, rest = svg.partition("<svg ")
    attributes, end, rest = rest.partition(">")
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return head + tag + attributes + end + background + rest
