"""Charts as SVG, drawn by hand, since so few need no library: bars with spread, stacked bars, and a grid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark_benchmarks.harness.contest import Rates

_LABEL, _PLOT, _VALUE, _ROW, _TOP, _BOTTOM = 150, 420, 90, 26, 34, 26
_LEGEND, _LEGEND_COLUMNS = 18, 3
_WIDE_LABEL, _CELL = 250, 120
ENOUGH = 0.85
"""The least ratio to the best that counts as near."""
_INK, _QUIET, _OURS, _THEIRS = "#24292f", "#8c959f", "#1a7f64", "#8fa3b5"


def bars(title: str, rates: Mapping[str, Rates], ours: Sequence[str]) -> str:
    """Draw an SVG with a bar for each median, on a logarithmic scale, and a line from the least to the most.

    Args:
        title: the text above the bars.
        rates: least, median and most of each bar, by its name; at least one.
        ours: names of bars to stand out.
    """
    low = 10 ** math.floor(math.log10(min(each.least for each in rates.values())))
    high = max(10 * low, 10 ** math.ceil(math.log10(max(each.most for each in rates.values()))))

    def at(rate: float) -> float:
        return _LABEL + _PLOT * math.log(rate / low) / math.log(high / low)

    width, bottom = _LABEL + _PLOT + _VALUE, _TOP + _ROW * len(rates)
    drawn = _opened(title, width, bottom + _BOTTOM)
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        x = at(10**power)
        drawn.append(f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#d8dee4"/>')
        drawn.append(
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="{_QUIET}">{10**power:,}</text>'
        )
    for row, (name, each) in enumerate(rates.items()):
        y, colour = _TOP + _ROW * row, _OURS if name in ours else _THEIRS
        middle, least, end, most = y + _ROW / 2, at(each.least), at(each.median), at(each.most)
        bar = f'x="{_LABEL}" y="{y + 5}" width="{end - _LABEL:.1f}" height="{_ROW - 10}"'
        spread = f'x1="{least:.1f}" y1="{middle}" x2="{most:.1f}" y2="{middle}"'
        drawn += [
            f'<text x="{_LABEL - 8}" y="{middle + 4}" text-anchor="end" fill="{_INK}">{escape(name)}</text>',
            f'<rect {bar} fill="{colour}"/>',
            f'<line {spread} stroke="{_INK}" stroke-width="2"/>',
            f'<text x="{most + 6:.1f}" y="{middle + 4}" fill="{_INK}">{each.median:,.0f}</text>',
        ]
    return "\n".join([*drawn, "</svg>", ""])


def stacked(title: str, rows: Mapping[str, Mapping[str, float]]) -> str:
    """Draw an SVG with a bar for each row, made of its parts in their order, and a legend of their colours.

    Args:
        title: the text above the bars.
        rows: for each row, the sizes of its parts, by their names. Negative sizes are drawn as 0.
    """
    parts = list(dict.fromkeys(part for each in rows.values() for part in each))
    colour = {part: f"hsl({360 * at // len(parts)} 45% 60%)" for at, part in enumerate(parts)}
    most = max(sum(each.values()) for each in rows.values())
    legend = _TOP + _ROW * len(rows) + 8
    width, height = _LABEL + _PLOT + _VALUE, legend + _LEGEND * -(-len(parts) // _LEGEND_COLUMNS) + 8
    drawn = _opened(title, width, height)
    for row, (name, each) in enumerate(rows.items()):
        y, x = _TOP + _ROW * row, float(_LABEL)
        drawn.append(_text(_LABEL - 8, y + _ROW / 2 + 4, name, _INK, "end"))
        for part, size in each.items():
            length = _PLOT * max(0.0, size) / most
            box = f'x="{x:.1f}" y="{y + 3}" width="{length:.1f}" height="{_ROW - 6}"'
            drawn.append(f'<rect {box} fill="{colour[part]}"/>')
            x += length
        drawn.append(_text(x + 6, y + _ROW / 2 + 4, f"{sum(each.values()):,.1f}", _INK))
    for at, part in enumerate(parts):
        row, column = divmod(at, _LEGEND_COLUMNS)
        x, y = 8 + width / _LEGEND_COLUMNS * column, legend + _LEGEND * row
        drawn.append(f'<rect x="{x:.1f}" y="{y}" width="10" height="10" fill="{colour[part]}"/>')
        drawn.append(_text(x + 16, y + 10, part, _INK))
    return "\n".join([*drawn, "</svg>", ""])


def grid(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[tuple[str, float]]]) -> str:
    """Draw a grid with a cell for each name and ratio: green for high ratios, red below `ENOUGH`.

    Args:
        title: the text above the grid.
        columns: the names of the columns.
        rows: for each row, the name and ratio of each cell. A cell without a name is left empty.
    """
    bottom = _TOP + _ROW * (len(rows) + 1)
    drawn = _opened(title, _WIDE_LABEL + _CELL * len(columns) + 8, bottom + 8)
    for at, column in enumerate(columns):
        drawn.append(_text(_WIDE_LABEL + _CELL * (at + 0.5), _TOP + 17, column, _QUIET, "middle"))
    for row, (name, cells) in enumerate(rows.items(), 1):
        y = _TOP + _ROW * row
        drawn.append(_text(_WIDE_LABEL - 8, y + 17, name, _INK, "end"))
        for at, (winner, ratio) in enumerate(cells):
            if not winner:
                continue
            x = _WIDE_LABEL + _CELL * at
            light = 92 - 25 * min(1.0, max(0.0, ratio - ENOUGH))
            colour = f"hsl(160 45% {light:.0f}%)" if ratio >= ENOUGH else "hsl(10 70% 82%)"
            box = f'x="{x + 1}" y="{y + 1}" width="{_CELL - 2}" height="{_ROW - 2}"'
            drawn.append(f'<rect {box} fill="{colour}"/>')
            drawn.append(_text(x + _CELL / 2, y + 17, f"{winner} {ratio:.2f}", _INK, "middle"))
    return "\n".join([*drawn, "</svg>", ""])


def _opened(title: str, width: int, height: int) -> list[str]:
    size = f'width="{width}" height="{height}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f'<rect {size} fill="white"/>',
        f'<text x="8" y="20" font-weight="bold" fill="{_INK}">{escape(title)}</text>',
    ]


def _text(x: float, y: float, text: str, fill: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'
