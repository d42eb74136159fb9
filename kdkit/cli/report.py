"""Writes RUN/report.html, one self-contained page, and prints its table.

With several runs, or with --markdown, it writes the table of all of them, runs
that differ only in their seed taken together, between the markers
<!-- kdkit:results:start --> and <!-- kdkit:results:end --> of a file.

example:
  kdkit report runs/tinybert
  kdkit report runs/tinybert_seed* --markdown docs/results.md
"""


def add_arguments(parser):
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument(
        "--markdown",
        metavar="FILE",
        help="also write the results of all runs into this file",
    )


def run(options):
    import pathlib

    from kdkit.reporting import markdown_results
    from kdkit.reporting import print_report
    from kdkit.reporting import read_run
    from kdkit.reporting import replace_results
    from kdkit.reporting import write_report

    all_records = [read_run(path) for path in options.runs]
    for path, records in zip(options.runs, all_records, strict=True):
        print_report(records)
        page = pathlib.Path(path) / "report.html"
        write_report(records, page)
        print(f"Written: {page}")
    if options.markdown:
        replace_results(options.markdown, markdown_results(all_records))
        print(f"Written: {options.markdown}")
