"""What stands below the comparison in an HTML report."""

import html
import json

from kdkit.quantities import duration
from kdkit.reporting.curve_plots import plot_losses
from kdkit.reporting.curve_plots import plot_metric
from kdkit.reporting.curves import metric_curve
from kdkit.reporting.curves import stage_seconds
from kdkit.reporting.event_fields import ARMS
from kdkit.reporting.formatting import DOES_NOT_APPLY
from kdkit.reporting.formatting import NOT_RUN
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.formatting import millions
from kdkit.reporting.formatting import words
from kdkit.reporting.html_parts import cell
from kdkit.reporting.html_parts import missing
from kdkit.reporting.html_parts import text
from kdkit.reporting.latency_plot import latency_setting
from kdkit.reporting.latency_plot import plot_latency
from kdkit.reporting.provenance import provenance
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import exported_files
from kdkit.reporting.selection import model_description
from kdkit.reporting.summary import stage_title
from kdkit.reporting.tables import metric_names


def quality_and_speed(records: RunRecords) -> str:
    """Returns the pictures of the metric over epochs and over latency."""
    figures = []
    metric = plot_metric(records)
    figures.append(
        _figure(metric, _stages_in_words(records))
        if metric
        else missing("Metric over epochs")
    )
    latency = plot_latency(records)
    figures.append(
        _figure(
            latency,
            f"{latency_setting(records)}. Circle fp32, square fp16, diamond "
            "int8. Better is up and left.",
        )
        if latency
        else missing("Latency of exported files")
    )
    return '<div class="two">\n' + "\n".join(figures) + "\n</div>"


def _stages_in_words(records):
    """Which epochs of the trained model belong to which stage."""
    metric = metric_names(records)[0]
    curve = metric_curve(records, records.trained_arm, metric)
    if curve is None:
        return "After each epoch."
    stages = ", ".join(
        f"{words(stage)} {first}"
        if first == last
        else f"{words(stage)} {first}–{last}"
        for stage, first, last in curve.stages
    )
    return f"After each epoch. The {curve.arm}'s epochs: {stages}."


def _figure(svg, caption):
    return f"<figure>{svg}<figcaption>{text(caption)}</figcaption></figure>"


def losses(records: RunRecords) -> str:
    """Returns the loss curves of all stages."""
    stages = plot_losses(records)
    if not stages:
        return missing("Training")
    blocks = [
        '<div class="stage">'
        f"<h3>{text(stage_title(stage.arm, stage.stage))}</h3>"
        f'<div class="curves">{"".join(stage.pictures)}</div></div>'
        for stage in stages
    ]
    return (
        '<p class="note">Solid with full points: training. Dashed '
        "with hollow points: dev.</p>\n"
        '<div class="stages">\n' + "\n".join(blocks) + "\n</div>"
    )


def files(records: RunRecords) -> str:
    """Returns what the check of each file against its Keras model found."""
    rows = []
    for arm in ARMS:
        for file in exported_files(records, arm):
            length = file.sequence_length
            same = file.same_top_class
            difference = file.max_abs_difference
            cells = (
                str(length or "any"),
                millions(file.size_bytes),
                NOT_RUN
                if difference is None
                else f"{difference:.1e}".replace("e-0", "e-"),
                DOES_NOT_APPLY
                if same is None
                else metric_format("same_top_class").number(same),
                NOT_RUN if file.examples is None else str(file.examples),
            )
            rows.append(
                f'<tr class="{arm}"><th class="name" scope="row">'
                f'<span class="dot"></span>{text(arm)}: {text(file.file)}'
                f"</th>{''.join(map(cell, cells))}</tr>"
            )
    if not rows:
        return missing("Export")
    head = (
        '<th class="name">file</th><th>length<small>tokens</small></th>'
        "<th>size<small>MB</small></th>"
        "<th>largest difference<small>of an output</small></th>"
        "<th>same class<small>%</small></th>"
        "<th>compared on<small>examples</small></th>"
    )
    return (
        '<p class="note">Each file beside the Keras model it was made from.'
        "</p>\n"
        f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table></div>"
    )


def origin(records: RunRecords) -> str:
    """Returns commands, facts and configuration."""
    made = provenance([records])
    facts = list(made.facts)
    facts += [
        (stage_title(arm, stage), duration(seconds))
        for (arm, stage), seconds in stage_seconds(records).items()
    ]
    facts += [
        (arm.capitalize(), _architecture(records, arm))
        for arm in ARMS
        if model_description(records, arm)
    ]
    parts = []
    if made.commands:
        commands = html.escape("\n".join(made.commands))
        parts.append(f"<pre><code>{commands}</code></pre>")
    items = "".join(
        f"<dt>{text(label)}</dt><dd>{text(fact)}</dd>" for label, fact in facts
    )
    parts.append(f"<dl>{items}</dl>")
    config = html.escape(json.dumps(records.config, indent=2))
    parts.append(
        "<details><summary>Configuration</summary>"
        f"<pre><code>{config}</code></pre></details>"
    )
    return "\n".join(parts)


def _architecture(records, arm):
    model = model_description(records, arm)
    sizes = (
        ("num_layers", "layers"),
        ("hidden_dim", "wide"),
        ("num_heads", "heads"),
        ("intermediate_dim", "feed-forward"),
    )
    shape = ", ".join(
        f"{model[key]} {unit}" for key, unit in sizes if model.get(key)
    )
    name = model.get("name") or ""
    return f"{name} ({shape})" if name and shape else name or shape
