"""Places for the labels of a picture's points, none over another."""

import itertools
import math
from collections.abc import Sequence

_DISTANCES = (9.0, 18.0, 28.0, 40.0, 54.0, 70.0, 90.0)
# Right, left, above, below, then the diagonals; in degrees.
_ANGLES = (0, 180, 90, 270, 30, -30, 150, 210, 60, -60, 120, 240)
_MARKER_RADIUS = 6.0

Box = tuple[float, float, float, float]  # left, bottom, right, top


def place_labels(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    bounds: Box,
) -> list[Box]:
    """Returns a box for each label, near its point and clear of the others.

    Boxes are tried at growing distance around the point; the first that
    covers no marker and no label placed before is taken, or the one that
    covers least.

    Args:
        points: sequence of (x, y), in units of the picture.
        sizes: sequence of (width, height) of the labels, in the same units.
        bounds: (left, bottom, right, top) that no label may leave.

    Returns:
        A list of (left, bottom, right, top), one for each point.

    >>> place_labels([(50, 50)], [(20, 10)], (0, 0, 100, 100))
    [(59.0, 45.0, 79.0, 55.0)]
    """
    radius = _MARKER_RADIUS
    taken = [
        (x - radius, y - radius, x + radius, y + radius) for x, y in points
    ]
    placed = []
    for point, size in zip(points, sizes, strict=True):
        best = None
        for distance, angle in itertools.product(_DISTANCES, _ANGLES):
            box = _box_beside(point, size, distance, angle)
            cost = sum(_overlap(box, other) for other in taken)
            cost += 10 * _outside(box, bounds)
            if best is None or cost < best[0]:
                best = (cost, box)
            if cost == 0:
                break
        placed.append(best[1])
        taken.append(best[1])
    return placed


def stack_labels(
    heights: Sequence[float], gap: float, low: float, high: float
) -> list[float]:
    """Returns heights at least `gap` apart, each near the one wished for.

    Args:
        heights: sequence of floats. Where labels would stand best.
        gap: float. The least distance of two labels.
        low: float. The least height, kept as far as there is room.
        high: float. The greatest height.

    Returns:
        A list of floats, one for each label, in the order of `heights`.

    >>> stack_labels([88.0, 48.0, 48.0], gap=5.0, low=40.0, high=90.0)
    [88.0, 48.0, 53.0]
    """
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    placed = list(heights)
    lowest = low
    for index in order:
        placed[index] = max(placed[index], lowest)
        lowest = placed[index] + gap
    highest = high
    for index in reversed(order):
        placed[index] = min(placed[index], highest)
        highest = placed[index] - gap
    return placed


def _box_beside(point, size, distance, angle):
    """The box whose nearest edge lies at a distance in a direction."""
    cosine = round(math.cos(math.radians(angle)), 9)
    sine = round(math.sin(math.radians(angle)), 9)
    width, height = size
    # Shifting by half its size along the direction keeps the box clear.
    center_x = point[0] + cosine * distance + _sign(cosine) * width / 2
    center_y = point[1] + sine * distance + _sign(sine) * height / 2
    return (
        center_x - width / 2,
        center_y - height / 2,
        center_x + width / 2,
        center_y + height / 2,
    )


def _sign(value):
    return (value > 0) - (value < 0)


def _overlap(one, other):
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0) * max(height, 0)


def _outside(box, bounds):
    area = (box[2] - box[0]) * (box[3] - box[1])
    return area - _overlap(box, bounds)
