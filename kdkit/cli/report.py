"""Writes RUN/report.html, one self-contained page, and prints its table.

With --markdown it writes the tables of all runs, those that differ only in
their seed taken together, between the markers <!-- kdkit:results:start --> and
<!-- kdkit:results:end --> of a file; with --overview one table with a line for
each of them but the arms of kdkit ablate. With --keep it writes what the runs
recorded, without their weights and without the places of their data, into a
folder to be shared, whose directories kdkit report takes in place of the runs.

example:
  kdkit report runs/tinybert
  kdkit report runs/tinybert_seed* runs/pkd_seed* --markdown docs/results.md
  kdkit report runs/pkd runs/vanilla_kd --curves curves.svg
  kdkit report runs/small runs/large --overview README.md --trade-off sizes.svg
  kdkit report runs/pkd_seed* --keep docs/runs
"""


def add_arguments(parser):
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument(
        "--markdown",
        metavar="FILE",
        help="also write the results of all runs into this file",
    )
    parser.add_argument(
        "--overview",
        metavar="FILE",
        help="also write one table of all runs into this file",
    )
    parser.add_argument(
        "--curves",
        metavar="FILE.svg",
        help="also draw the students' metric over the epochs, on training data "
        "and dev",
    )
    parser.add_argument(
        "--trade-off",
        metavar="FILE.svg",
        help="also draw the students' and teachers' metric against parameters "
        "and, where files were timed, against latency",
    )
    parser.add_argument(
        "--keep",
        metavar="DIR",
        help="also write what the runs and their teachers recorded into DIR, "
        "small enough for version control",
    )


def run(options):
    import pathlib

    from kdkit.files import write_text
    from kdkit.reporting import group_by_seed
    from kdkit.reporting import keep_records
    from kdkit.reporting import markdown_overview
    from kdkit.reporting import markdown_results
    from kdkit.reporting import plot_learning_curves
    from kdkit.reporting import plot_trade_off
    from kdkit.reporting import print_report
    from kdkit.reporting import read_run
    from kdkit.reporting import replace_results
    from kdkit.reporting import without_arms
    from kdkit.reporting import write_report

    all_records = [read_run(path) for path in options.runs]
    if options.keep:  # first, so that what it refuses stays as it is
        for place in keep_records(all_records, options.keep):
            print(f"Written: {place}")
    for path, records in zip(options.runs, all_records, strict=True):
        print_report(records)
        page = pathlib.Path(path) / "report.html"
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
