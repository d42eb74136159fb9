"""Writes RUN/report.html, one self-contained page, and prints its table.

RUN is a run directory, or a file of records, which --keep writes: what runs and
their teachers recorded, one run a line, without weights and without the places
of their data, small enough for version control. Records of the same name are
replaced. The pages of runs from such a file are written with --pages, and
--only chooses among them.

With --markdown it writes the tables of all runs, those that differ only in
their seed taken together, between the markers <!-- kdkit:results:start --> and
<!-- kdkit:results:end --> of a file; with --overview one table with a line for
each of them but the arms of kdkit ablate.

example:
  kdkit report runs/tinybert
  kdkit report runs/tinybert_seed* runs/pkd_seed* --markdown results.md
  kdkit report runs/pkd runs/vanilla_kd --curves curves.svg
  kdkit report runs/small runs/large --overview README.md --trade-off sizes.svg
  kdkit report runs/pkd_seed* --keep runs.jsonl
  kdkit report runs.jsonl --only 'pkd_*' vanilla_kd_seed0 --pages reports
"""

import dataclasses

from kdkit.cli.parser import File
from kdkit.cli.parser import option


@dataclasses.dataclass
class Options:
    """pages and tables"""

    runs: list[File] = option(
        "run directories, or files of records",
        default=[],
        positional=True,
        required=True,
        metavar="RUN",
    )
    only: list[str] = option(
        "the runs of a file of records to report, in this order. * and ? match "
        "as in a shell.",
        default=[],
    )
    pages: str | None = option(
        "write the pages to DIR/NAME.html, not to the run directories",
        metavar="DIR",
    )
    markdown: str | None = option(
        "also write the results of all runs into this file", metavar="FILE"
    )
    overview: str | None = option(
        "also write one table of all runs into this file", metavar="FILE"
    )
    curves: str | None = option(
        "also draw the students' metric over the epochs, on training data and "
        "dev",
        metavar="FILE.svg",
    )
    trade_off: str | None = option(
        "also draw the students' and teachers' metric against parameters. And, "
        "where files were timed, against latency.",
        metavar="FILE.svg",
    )
    keep: str | None = option(
        "also add what the runs and their teachers recorded to this file of "
        "records",
        metavar="FILE",
    )


def run(options):
    import os
    import pathlib

    from kdkit.errors import UsageError
    from kdkit.io.files import write_text
    from kdkit.reporting import group_by_seed
    from kdkit.reporting import keep_records
    from kdkit.reporting import markdown_overview
    from kdkit.reporting import markdown_results
    from kdkit.reporting import plot_learning_curves
    from kdkit.reporting import plot_trade_off
    from kdkit.reporting import print_report
    from kdkit.reporting import read_records
    from kdkit.reporting import read_run
    from kdkit.reporting import replace_results
    from kdkit.reporting import without_arms
    from kdkit.reporting import write_report

    all_records, pages = [], []
    files = [place for place in options.runs if os.path.isfile(place)]
    if options.only and not files:
        raise UsageError(
            "--only chooses runs of a file of records. Received: "
            f"{', '.join(options.runs)}. Name the runs alone, without --only."
        )
    for place in options.runs:
        is_file = place in files
        found = (
            read_records(place, options.only) if is_file else [read_run(place)]
        )
        all_records += found
        for records in found:
            page = None if is_file else pathlib.Path(place, "report.html")
            if options.pages is not None:
                page = pathlib.Path(options.pages, f"{records.label}.html")
            pages.append(page)
    if options.pages is not None and len(set(pages)) < len(pages):
        raise UsageError(
            "--pages needs a name for each run. Received: runs whose "
            "directories have the same name. Rename one of them."
        )
    if options.keep:  # first: if it refuses, no other file has changed
        kept = keep_records(all_records, options.keep)
        for name, outcome in kept.items():
            print(f"{name}: {outcome}")
        print(f"Written: {options.keep}")
    for records, page in zip(all_records, pages, strict=True):
        print_report(records)
        if page is not None:
            write_report(records, page)
            print(f"Written: {page}")
    if options.markdown:
        replace_results(options.markdown, markdown_results(all_records))
        print(f"Written: {options.markdown}")
    if options.overview:
        overview = markdown_overview(without_arms(group_by_seed(all_records)))
        replace_results(
            options.overview, overview or markdown_results(all_records)
        )
        print(f"Written: {options.overview}")
    if options.curves:
        write_text(
            pathlib.Path(options.curves), plot_learning_curves(all_records)
        )
        print(f"Written: {options.curves}")
    if options.trade_off:
        write_text(
            pathlib.Path(options.trade_off),
            plot_trade_off(group_by_seed(all_records)),
        )
        print(f"Written: {options.trade_off}")
