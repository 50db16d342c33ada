// One panel on screen: heading, legend with values, and a uPlot chart.

import { element, setText } from "../dom.js";
import { momentOf, tick, timeMark, written } from "../format.js";
import { linesOf } from "./series.js";

const SHORTEST_WINDOW_SECONDS = 60;
const AXIS_WIDTH = 50;
const HALF_TIME = 26; // of the width of a time, which may stand at the right end
const COLOURS = 8;
const LATEST = "last batch";
const WHOLE_STEPS = Array.from({ length: 39 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));

const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  constructor(panel, history) {
    this.panel = panel;
    this.history = history;
    this.signature = null;
    this.lines = [];
    this.without = [];
    this.plot = null;
    this.build();
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  build() {
    const { title, note, wide, axis, rightAxis } = this.panel;
    this.moment = element("p", { className: "moment", text: LATEST });
    this.legend = element("ul", { className: "legend" });
    this.canvas = element("div", { className: "canvas" });
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${title} over time, a line chart; the list before it has the values`);
    const heading = element("div", {
      children: [element("h3", { text: title }), element("p", { className: "note", text: note })],
    });
    const head = element("div", { className: "panel-head", children: [heading, this.moment] });
    const axes = [axis, rightAxis ?? ""].map((text) => element("span", { text }));
    this.node = element("figure", {
      className: wide ? "panel wide" : "panel",
      children: [
        element("figcaption", { children: [head, this.legend] }),
        element("div", { className: "axes", children: axes }),
        this.canvas,
      ],
    });
  }

  /** Draw what the history holds now. */
  update() {
    this.lines = linesOf(this.panel, this.history);
    this.without = this.history.gaps();
    const signature = this.lines.map(({ id }) => id).join("\n");
    if (signature !== this.signature) {
      this.signature = signature;
      this.rebuild();
    } else {
      this.plot?.setData(this.data());
    }
    this.showValues();
  }

  /** Set up legend and chart anew: for other lines or another theme. */
  rebuild() {
    const colours = this.lines.map((line, i) =>
      line.emphasis ? themed("--text") : themed(`--series-${(i % COLOURS) + 1}`),
    );
    this.values = this.lines.map(() => element("span", { className: "value" }));
    const items = this.lines.map((line, i) => {
      const swatch = element("span", { className: line.right ? "swatch dashed" : "swatch" });
      swatch.style.color = colours[i];
      return element("li", { children: [swatch, element("span", { text: line.label }), this.values[i]] });
    });
    this.legend.replaceChildren(...items);
    this.plot?.destroy();
    this.plot = new uPlot(this.options(colours), this.data(), this.canvas);
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (this.plot && width > 0) this.plot.setSize({ width, height });
  }

  data() {
    const times = this.history.batches.map((batch) => batch.committed_at);
    if (!this.panel.stack) return [times, ...this.lines.map((line) => line.values)];
    // Times of the newest batch may come after it; until then it has no point at 0.
    const below = times.map((_, i) => (this.lines.some(({ values }) => values[i] !== null) ? 0 : null));
    const stacked = this.lines.map((line) => {
      if (line.emphasis) return line.values;
      return line.values.map((value, i) => (below[i] === null ? null : (below[i] += value ?? 0)));
    });
    return [times, ...stacked];
  }

  /** Legend values under the cursor, or the latest ones. */
  showValues() {
    const index = this.plot?.cursor.idx ?? null;
    const batch = index === null ? undefined : this.history.batches[index];
    setText(this.moment, batch ? `${momentOf(batch.committed_at)} \u00b7 batch #${batch.batch_id}` : LATEST);
    this.moment.classList.toggle("past", Boolean(batch));
    this.lines.forEach((line, i) => {
      const value = batch ? line.values[index] : line.values.findLast((known) => known !== null);
      setText(this.values[i], written(value, line.unit));
    });
  }

  options(colours) {
    const { panel } = this;
    const usesRight = Boolean(panel.rightAxis);
    return {
      width: this.canvas.clientWidth || 400,
      height: this.canvas.clientHeight || 180,
      padding: [6, usesRight ? 0 : HALF_TIME, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: "endmark" }, points: { size: 7 } },
      scales: {
        x: { range: windowOf },
        y: { range: fromZero },
        right: { range: fromZero },
      },
      axes: [timeAxis(), valueAxis(panel, "y"), ...(usesRight ? [valueAxis(panel, "right")] : [])],
      series: [{}, ...this.lines.map((line, i) => this.stroke(line, colours[i]))],
      bands: this.bands(),
      hooks: { setCursor: [() => this.plot && this.showValues()] },
    };
  }

  stroke(line, colour) {
    const filled = this.panel.stack && !line.emphasis;
    return {
      scale: line.right ? "right" : "y",
      stroke: colour,
      width: this.panel.stack ? 1.25 : 1.75,
      dash: line.right ? [5, 4] : undefined,
      fill: filled ? `${colour}38` : undefined,
      gaps: (plot, _line, first, last, missing) => this.gaps(plot, first, last, line.right ? [] : missing),
    };
  }

  /** Stretches of pixels without a line, in order: where values are missing, and where batches are. */
  gaps(plot, first, last, missing) {
    const times = plot.data[0];
    const at = (i) => Math.round(plot.valToPos(times[i], "x", true));
    const between = this.without
      .map((isGap, i) => (isGap && i > first && i <= last ? [at(i - 1), at(i)] : null))
      .filter(Boolean);
    const found = [];
    for (const [from, to] of [...missing, ...between].sort(([a], [b]) => a - b)) {
      const before = found.at(-1);
      if (before && from <= before[1]) before[1] = Math.max(before[1], to);
      else found.push([from, to]);
    }
    return found;
  }

  bands() {
    if (!this.panel.stack) return [];
    const phases = this.lines.filter((line) => !line.emphasis).length;
    return Array.from({ length: Math.max(0, phases - 1) }, (_, i) => ({ series: [i + 2, i + 1] }));
  }
}

const fromZero = (_plot, _min, max) => [0, max > 0 ? max * 1.08 : 1];

const axisStyle = () => ({
  stroke: themed("--muted"),
  font: `11px ${themed("--font")}`,
  ticks: { show: false },
  grid: { stroke: themed("--grid"), width: 1 },
});

/** The times that a chart shows. uPlot would show two days if there is one batch. */
function windowOf({ data: [times] }, min, max) {
  const [first, last] = times.length ? [times[0], times.at(-1)] : [min, max];
  return [Math.min(first, last - SHORTEST_WINDOW_SECONDS), last];
}

const timeAxis = () => ({
  ...axisStyle(),
  size: 26,
  gap: 6,
  space: 76,
  grid: { show: false },
  values: (_plot, splits, _axis, _space, step) => splits.map((time) => timeMark(time, step)),
});

function valueAxis({ axis, rightAxis, whole }, scale) {
  const right = scale === "right";
  const style = axisStyle();
  return {
    ...style,
    scale,
    side: right ? 1 : 3,
    size: AXIS_WIDTH,
    gap: 8,
    space: 34,
    grid: right ? { show: false } : style.grid,
    incrs: whole ? WHOLE_STEPS : undefined,
    values: (_plot, splits) => splits.map((value) => tick(value, right ? rightAxis : axis)),
  };
}
