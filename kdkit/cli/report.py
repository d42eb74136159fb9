"""Writes RUN/report.html, one self-contained page, and prints its table.

Of several runs, one page also shows all next to each other: comparison.html in
the first run's directory. Runs that differ only in their seed share rows, with
the mean and the sample standard deviation.

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
        "also write the table of all runs into this file", metavar="FILE"
    ),
    "curves": flag(
        "also plot the metric per epoch, on training data and dev",
        metavar="FILE.svg",
    ),
    "trade_off": flag(
        "also plot the metric against parameters and, of files, against size "
        "and latency",
        metavar="FILE.svg",
    ),
}


def run(words):
    """Prints the tables of runs and writes their pages."""
    runs = {"runs": many("run directories", metavar="RUN")}
    options = VerbParser("report", __doc__, runs, {"pages": FLAGS}).parse_args(
        words
    )
    runs = [reporting.read_run(place) for place in dict.fromkeys(options.runs)]
    pages = [([run], run.run_dir / "report.html") for run in runs]
    if len(runs) > 1:
        pages.append((runs, runs[0].run_dir / "comparison.html"))
    for shown, page in pages:
        if len(shown) == 1:
            reporting.print_report(*shown)
        if os.access(page.parent, os.W_OK):
            print(f"Written: {reporting.write_report(shown, page)}")
        else:
            print(f"{page.parent} is read-only: no page is written.")
    for file, make in (
        (
            options.markdown,
            lambda all: reporting.comparison_table(all).markdown(),
        ),
        (options.curves, reporting.plot_metric),
        (options.trade_off, reporting.plot_trade_off),
    ):
        if file:
            write_text(pathlib.Path(file), make(runs))
            print(f"Written: {file}")
