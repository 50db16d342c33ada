"""Drawing of a figure as an SVG, which is the same text for the same figure."""

from __future__ import annotations

from io import StringIO

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from endmark_papers.figures.figure import Figure

_PANEL_INCHES = (4.6, 3.4)


def svg(figure: Figure) -> str:
    """Return the figure's panels side by side; a curve's 95 % interval is a band."""
    # With these, matplotlib names the parts of an SVG by their content and leaves out the date.
    with mpl.rc_context({"svg.hashsalt": "endmark", "svg.fonttype": "none"}):
        width, height = _PANEL_INCHES
        canvas = Canvas(figsize=(width * len(figure.panels), height), layout="constrained")
        canvas.suptitle(figure.title, fontsize="medium")
        for axes, panel in zip(
            canvas.subplots(1, len(figure.panels), squeeze=False)[0], figure.panels, strict=True
        ):
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
