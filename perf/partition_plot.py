"""A picture of seconds by number of partitions, both on logarithmic scales."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["draw"]

_WIDE, _HIGH, _LEFT, _BELOW = 560, 300, 64, 48
_COLOURS = ("#0b6fa4", "#b4552d")


def draw(path: Path, lines: Mapping[str, Sequence[tuple[int, float]]]) -> None:
    """Write an SVG with a line for each name: its points are numbers of partitions and seconds."""
    points = [point for line in lines.values() for point in line]
    decades = range(math.ceil(math.log10(max(x for x, _ in points))) + 1)
    low = math.floor(math.log10(min(y for _, y in points)))
    high = math.ceil(math.log10(max(y for _, y in points)))

    def at(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + math.log10(x) / max(decades[-1], 1) * (_WIDE - _LEFT - 90)
        up = (math.log10(y) - low) / max(high - low, 1) * (_HIGH - _BELOW - 20)
        return round(across, 1), round(_HIGH - _BELOW - up, 1)

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDE}" height="{_HIGH}" fill="#fff"/>',
    ]
    for decade in decades:
        x, y = at(10**decade, 10**low)
        drawn.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle">{10**decade:,}</text>')
    for power in range(low, high + 1):
        x, y = at(1, 10**power)
        right, _ = at(10 ** decades[-1], 10**power)
        drawn.append(f'<line x1="{x}" y1="{y}" x2="{right}" y2="{y}" stroke="#ddd"/>')
        drawn.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">{10.0**power:g} s</text>')
    for colour, (name, line) in zip(_COLOURS, lines.items(), strict=False):
        if not line:
            continue
        places = [at(x, y) for x, y in line]
        path_ = " ".join(f"{x},{y}" for x, y in places)
        drawn.append(f'<polyline points="{path_}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places]
        x, y = places[-1]
        drawn.append(f'<text x="{x + 8}" y="{y + 4}" fill="{colour}">{name}</text>')
    middle = (_LEFT + _WIDE - 90) / 2
    drawn.append(
        f'<text x="{middle}" y="{_HIGH - 8}" text-anchor="middle">partitions of the table</text>'
    )
    path.write_text("\n".join([*drawn, "</svg>"]) + "\n")
