"""Small SVG pictures whose colours follow the page they stand on."""

import html
import io
import math
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import FixedLocator
from matplotlib.ticker import FuncFormatter
from matplotlib.ticker import MaxNLocator
from matplotlib.ticker import NullLocator
from matplotlib.ticker import ScalarFormatter

from kdkit.reporting.labels import stack_labels

# In an HTML page the variable of that name wins over the colour itself.
COLORS = {
    "page": "#fefefe",
    "ink": "#1b2430",
    "muted": "#5d6976",
    "rule": "#dfe4ea",
    "teacher": "#68737f",
    "control": "#b8500b",
    "student": "#0a63c2",
}
# Lines of several runs, in this order.
RUN_COLORS = ("#0a63c2", "#b8500b", "#2e7d4f", "#7a4fb0", "#68737f", "#a8860c")
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "svg.fonttype": "none",
    "text.parse_math": False,  # names of runs are texts, also with a $
    "text.color": COLORS["ink"],
    "axes.edgecolor": COLORS["muted"],
    "axes.labelcolor": COLORS["muted"],
    "axes.labelsize": 11,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": COLORS["rule"],
    "grid.linewidth": 0.8,
    "xtick.color": COLORS["muted"],
    "ytick.color": COLORS["muted"],
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 10.5,
}
# Widths are measured with matplotlib's own wide font, so narrower ones fit.
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_LEFT, _BOTTOM = 46, 40
_LEAST_SPAN = 0.02  # of the largest value on the y axis
LABEL_FONT = FontProperties(family="DejaVu Sans", size=10.5)
_LABEL_GAP = 14
_LABEL_DISTANCE = 9
_VIEW_BOX = re.compile(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"')
_MOST_MARKERS = 12  # on one line


def draw(
    size: tuple[int, int],
    name: str,
    title: str,
    paint: Callable[[Axes], None],
    top: int = 32,
    right: int = 12,
) -> str:
    """Returns a picture with one pair of axes as SVG text.

    Margins are fixed, so that pictures side by side line up.

    Args:
        size: (width, height) in SVG units.
        name: string. Sets the picture's ids apart from those of others on
            the same page.
        title: string. Written above the axes and read out by screen readers.
        paint: function of the `matplotlib.axes.Axes` that draws the content.
        top: integer. Room above the axes, in SVG units. Defaults to 32.
        right: integer. Room right of the axes. Defaults to 12.

    Returns:
        The `<svg>` element.
    """
    width, height = size
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        axes = figure.add_axes(
            (
                _LEFT / width,
                _BOTTOM / height,
                1 - (_LEFT + right) / width,
                1 - (top + _BOTTOM) / height,
            )
        )
        figure.text(
            0,
            1 - 3 / height,
            title,
            verticalalignment="top",
            fontsize=12,
            fontweight="bold",
            parse_math=False,
        )
        paint(axes)
        buffer = io.StringIO()
        figure.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None},
        )
    return _as_inline_svg(buffer.getvalue(), title)


def epoch_axis(axes: Axes) -> None:
    """Makes the x axis count whole epochs."""
    axes.xaxis.set_major_locator(
        MaxNLocator(integer=True, nbins=6, min_n_ticks=1)
    )
    axes.set_xlabel("epoch", loc="right")


def widen(axes: Axes) -> None:
    """Widens the y axis so that noise does not look like a result."""
    low, high = axes.get_ylim()
    least = _LEAST_SPAN * max(abs(low), abs(high))
    if high - low < least:
        middle = (low + high) / 2
        axes.set_ylim(middle - least / 2, middle + least / 2)


def plot_line(axes: Axes, epochs, values, **style) -> None:
    """Draws one line, with points where they have room."""
    axes.plot(
        epochs,
        values,
        linewidth=1.8,
        marker="o" if len(epochs) <= _MOST_MARKERS else None,
        markersize=3.5,
        clip_on=False,
        **style,
    )


def label_ends(axes: Axes, ends: dict[str, tuple[float, str]]) -> None:
    """Names each line at the right of the axes, beside its end.

    Args:
        axes: `matplotlib.axes.Axes`, with its limits already set.
        ends: dict from the text of a label to the height of its line's end and
            its colour.
    """
    # On the page, where a gap is as high wherever it is, whatever the scale.
    window = axes.get_window_extent()
    right = axes.get_xlim()[1]
    heights = [
        axes.transData.transform((right, height))[1]
        for height, _ in ends.values()
    ]
    places = stack_labels(heights, _LABEL_GAP, window.y0, window.y1)
    for (text, (_, color)), place in zip(ends.items(), places, strict=True):
        axes.annotate(
            text,
            (1, (place - window.y0) / window.height),
            xycoords="axes fraction",
            xytext=(_LABEL_DISTANCE, 0),
            textcoords="offset points",
            verticalalignment="center",
            annotation_clip=False,
            fontproperties=LABEL_FONT,
            color=color,
        )


def room_for(labels: Iterable[str]) -> int:
    """Returns how wide the room right of the axes must be for `label_ends`."""
    figure = Figure(dpi=72)
    return math.ceil(
        _LABEL_DISTANCE
        + max(text_size(figure, label)[0] for label in labels)
        + _LABEL_DISTANCE
    )


def text_size(figure: Figure, text: str) -> tuple[float, float]:
    """Returns width and height of a label in SVG units."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    width, height, _ = renderer.get_text_width_height_descent(
        text, LABEL_FONT, ismath=False
    )
    return width, height


def plain_axis(axis, low: float, high: float, logarithmic: bool) -> None:
    """Gives an axis few ticks with plain numbers.

    Args:
        axis: `axes.xaxis` or `axes.yaxis`, with its scale already set.
        low: float. The lowest value shown.
        high: float. The highest value shown.
        logarithmic: boolean. Whether the scale is.
    """
    if logarithmic:
        axis.set_major_locator(FixedLocator(log_ticks(low, high)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axis.set_major_locator(MaxNLocator(nbins=5, steps=(1, 2, 5, 10)))
        plain = ScalarFormatter(useOffset=False, useMathText=False)
        plain.set_powerlimits((-3, 5))
        axis.set_major_formatter(plain)


def log_ticks(low: float, high: float) -> list[float]:
    """Returns round numbers for a logarithmic axis, at most six.

    >>> log_ticks(5, 224)
    [5, 10, 20, 50, 100, 200]
    """
    exponents = range(int(f"{low:e}"[-3:]), int(f"{high:e}"[-3:]) + 1)
    ticks = []
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = [
            float(f"{digit}e{exponent}")
            for exponent in exponents
            for digit in digits
            if low <= float(f"{digit}e{exponent}") <= high
        ]
        if len(ticks) <= 6:
            break
    every = -(-len(ticks) // 6) or 1
    return [int(tick) if tick >= 1 else tick for tick in ticks[::every]]


def beside(pictures: Sequence[str]) -> str:
    """Returns pictures side by side as one, at the same height.

    Args:
        pictures: sequence of what `draw` returned.
    """
    if len(pictures) == 1:
        return pictures[0]
    sizes = [
        tuple(map(float, _VIEW_BOX.search(picture).groups()))
        for picture in pictures
    ]
    height = max(size[1] for size in sizes)
    parts, left = [], 0.0
    for picture, size in zip(pictures, sizes, strict=True):
        # Within another picture a length is in units of that, not in points.
        inner = re.sub(r'(width|height)="([0-9.]+)pt"', r'\1="\2"', picture)
        parts.append(f'<g transform="translate({left:g})">{inner}</g>')
        left += size[0]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left:g}pt" '
        f'height="{height:g}pt" viewBox="0 0 {left:g} {height:g}">'
        f"{''.join(parts)}</svg>"
    )


def _as_inline_svg(text, title):
    """The `<svg>` element alone, with ids of its own and live colours."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    # Groups are never referred to; markers and clips are, by unique ids.
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    # A style element would hold for the whole page.
    text = re.sub(r"<defs>\s*<style.*?</defs>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"font-family: [^;\"]*;", "", text)
    label = html.escape(title)
    text = text.replace(
        "<svg ",
        f'<svg role="img" aria-label="{label}" style="font-family: {_FONTS}" ',
        1,
    )
    for name, color in COLORS.items():
        text = text.replace(color, f"var(--{name}, {color})")
    return text
