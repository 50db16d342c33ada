"""Drawing of a figure as an SVG, which is the same text for the same figure."""

from __future__ import annotations

import math
from io import StringIO

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from endmark_papers.figures.figure import Figure

_PANEL_INCHES = (4.6, 3.4)
_MOST_COLUMNS = 3


def svg(figure: Figure) -> str:
    """Return the figure's panels in rows of up to three; a curve's 95 % interval is a band."""
    # With these, matplotlib names the parts of an SVG by their content and leaves out the date.
    with mpl.rc_context({"svg.hashsalt": "endmark", "svg.fonttype": "none"}):
        width, height = _PANEL_INCHES
        rows = math.ceil(len(figure.panels) / _MOST_COLUMNS)
        columns = math.ceil(len(figure.panels) / rows)
        canvas = Canvas(figsize=(width * columns, height * rows), layout="constrained")
        canvas.suptitle(figure.title, fontsize="medium")
        for place, panel in enumerate(figure.panels, start=1):
            axes = canvas.add_subplot(rows, columns, place)
            for curve in panel.curves:
                axes.plot(curve.x, curve.y, label=curve.name, marker="." if len(curve.x) < 20 else None)
                if curve.low:
                    axes.fill_between(curve.x, curve.low, curve.high, alpha=0.2)
            axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
            if panel.log_x:
                axes.set_xscale("log")
            if panel.log_y:
                axes.set_yscale("log")
            axes.legend(fontsize="small")
        written = StringIO()
        canvas.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()
