"""Writes RUN/report.html, one self-contained page, and prints its table.

Of several runs, one page also shows all next to each other: comparison.html in
the first run's directory, or in the folder of --pages.

RUN is a run directory or a file of records. --keep writes such a file: one line
per run with the logs of the run and its teacher, without weights and without
places of data, small enough for version control. A record with the same name is
replaced. For a file of records, --only chooses runs and --pages writes their
pages.

--markdown writes the tables of all runs into a file, between the markers
<!-- kdkit:results:start --> and <!-- kdkit:results:end -->. Runs that differ
only in their seed share a row. --overview writes one table there, without the
arms of kdkit ablate.

example:
  kdkit report runs/tinybert
  kdkit report runs/tinybert runs/pkd
  kdkit report runs/tinybert_seed* runs/pkd_seed* --markdown results.md
  kdkit report runs/pkd runs/vanilla_kd --curves curves.svg
  kdkit report runs/small runs/large --overview README.md --trade-off sizes.svg
  kdkit report runs/pkd_seed* --keep runs.jsonl
  kdkit report runs.jsonl --only 'pkd_*' vanilla_kd_seed0 --pages reports
"""

import dataclasses

from kdkit.cli.parser import File, option


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
        "report only these runs of a file of records, in this order. * and ? "
        "match as in a shell.",
        default=[],
    )
    pages: str | None = option(
        "write the pages to DIR/NAME.html instead of the run directories",
        metavar="DIR",
    )
    markdown: str | None = option(
        "also write the tables of all runs into this file", metavar="FILE"
    )
    overview: str | None = option(
        "also write one table of all runs into this file", metavar="FILE"
    )
    curves: str | None = option(
        "also plot the students' metric per epoch, on training data and dev",
        metavar="FILE.svg",
    )
    trade_off: str | None = option(
        "also plot the models' metric against parameters. If files were "
        "timed, also against latency.",
        metavar="FILE.svg",
    )
    keep: str | None = option(
        "also add the runs to this file of records",
        metavar="FILE",
    )


def run(options):
    import os
    import pathlib

    from kdkit.errors import UsageError
    from kdkit.io.files import write_text
    from kdkit.reporting import (
        group_by_seed,
        keep_records,
        markdown_overview,
        markdown_results,
        plot_learning_curves,
        plot_trade_off,
        print_report,
        read_records,
        read_run,
        replace_results,
        without_arms,
        write_comparison,
        write_report,
    )

    all_records, directories, pages = [], [], []
    files = [place for place in options.runs if os.path.isfile(place)]
    if options.only and not files:
        raise UsageError(
            "--only chooses runs from a file of records. Received: "
            f"{', '.join(options.runs)}. Remove --only, and name only the "
            "runs to report."
        )
    for place in options.runs:
        is_file = place in files
        found = (
            read_records(place, options.only) if is_file else [read_run(place)]
        )
        all_records += found
        directories += [] if is_file else found
        for records in found:
            page = None
            if options.pages is not None:
                page = pathlib.Path(options.pages, f"{records.label}.html")
            elif os.access(place, os.W_OK) and not is_file:
                page = pathlib.Path(place, "report.html")
            elif not is_file:
                print(f"{place} is read-only. For its page: --pages DIR")
            pages.append(page)
    if options.pages is not None and len(set(pages)) < len(pages):
        raise UsageError(
            "--pages needs a name for each run. Received: runs whose "
            "directories have the same name. Rename one of them."
        )
    if options.keep:  # first: if it fails, no other file has changed
        kept = keep_records(all_records, options.keep)
        for name, outcome in kept.items():
            print(f"{name}: {outcome}")
        print(f"Written: {options.keep}")
    for records, page in zip(all_records, pages, strict=True):
        print_report(records)
        if page is not None:
            write_report(records, page)
            print(f"Written: {page}")
    if len(directories) > 1:
        folder = pathlib.Path(options.pages or directories[0].run_dir)
        if os.access(folder, os.W_OK):
            page = write_comparison(directories, folder / "comparison.html")
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
            pathlib.Path(options.curves),
            _on_white(plot_learning_curves(all_records)),
        )
        print(f"Written: {options.curves}")
    if options.trade_off:
        write_text(
            pathlib.Path(options.trade_off),
            _on_white(plot_trade_off(group_by_seed(all_records))),
        )
        print(f"Written: {options.trade_off}")


def _on_white(svg):
    """The picture with a background: pages that show the file may be dark."""
    head, tag, rest = svg.partition("<svg ")
    attributes, end, rest = rest.partition(">")
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return head + tag + attributes + end + background + rest
