// What a lookup would yield with more memory or less: as predicted, beside what was measured.

import { ApiError, setKnob } from "../data/api.js";
import { button, element, setChildren, setText, svg, table } from "../dom.js";
import { ago, exact, percent, tick, written } from "../format.js";

const SIZE = { width: 560, height: 220 };
const EDGE = { left: 56, right: 32, top: 12, bottom: 28 };
const MEASURED_BATCHES = 10;

/** Stream rows a second of the lookup's time in the last batches; null where lookups share that time, or had none. */
function measured(relation, pipeline, history) {
  const sum = (key) => history.batches.slice(-MEASURED_BATCHES).reduce((all, { samples }) => all + (samples[key] ?? 0), 0);
  const seconds = sum("profile_seconds_total{phase=lookup}");
  if (pipeline.lookups.length > 1 || !seconds) return null;
  return sum(`lookup_rows_total{relation=${relation}}`) / seconds;
}

const fastest = (rates) => Object.keys(rates).reduce((best, each) => (rates[each] > rates[best] ? each : best));

/** Lines of rates by memory, one a strategy; the table has the same figures. */
function chart({ relation, by_memory: steps }, strategies, chosen) {
  const most = Math.max(...steps.flatMap(({ rates }) => Object.values(rates)));
  const across = (SIZE.width - EDGE.left - EDGE.right) / (steps.length - 1);
  const x = (i) => EDGE.left + i * across;
  const y = (rate) => SIZE.height - EDGE.bottom - (rate / most) * (SIZE.height - EDGE.top - EDGE.bottom);
  const label = `Predicted rows a second for ${relation} by memory; the table below has the values`;
  const picture = svg("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": label });
  for (const part of [0, 0.5, 1]) {
    const at = y(part * most);
    picture.append(svg("path", { class: "grid", d: `M${EDGE.left},${at} H${SIZE.width - EDGE.right}` }));
    picture.append(svg("text", { x: EDGE.left - 8, y: at + 4, class: "tick y" }, tick(part * most, "rows/s")));
  }
  picture.append(svg("path", { class: "chosen", d: `M${x(chosen)},${EDGE.top} V${SIZE.height - EDGE.bottom}` }));
  steps.forEach(({ memory }, i) => {
    picture.append(svg("text", { x: x(i), y: SIZE.height - 8, class: "tick x" }, tick(memory, "bytes")));
  });
  strategies.forEach((strategy, n) => {
    const points = steps.map(({ rates }, i) => `${x(i)},${y(rates[strategy])}`);
    picture.append(svg("path", { class: `rates series-${n + 1}`, d: `M${points.join(" L")}` }));
  });
  return picture;
}

function rowOf({ memory, rates }, strategies, { memory: held, live }) {
  const best = fastest(rates);
  const cells = strategies.map((each) => {
    const text = written(rates[each], "rows/s");
    return each === best ? element("strong", { text }) : text;
  });
  return [`${written(memory, "bytes")}${memory === held ? ` (as ${live ? "it is" : "planned"})` : ""}`, ...cells, best];
}

/** How one rate is to that of what is held now. */
function beside(rate, other) {
  const share = rate / other - 1;
  if (Math.abs(share) < 0.005) return "as much as now";
  return `${percent(Math.abs(share), 1)} ${share > 0 ? "more" : "less"} than now`;
}

/** The rates of what may be done: without a time for a batch no row waits. */
function possible(rates, { waits, waiting }) {
  return waits ? rates : Object.fromEntries(Object.entries(rates).filter(([each]) => !waiting.includes(each)));
}

/** Premises of a prediction; `live` has been made by what the running job measures. */
function premisesOf({ relation_rows: rows, page_rows: page, batch_rows: batch, exponent, live, waits }) {
  const skew = exponent ? `by Zipf's law with exponent ${exponent}` : "evenly";
  const sizes = `${exact(rows)} rows in pages of ${exact(page)}, batches of ${exact(Math.round(batch))} stream rows`;
  const by = live ? "what reads cost in the last batches" : "endmark plan";
  const idle = waits ? "" : " No row waits as long as time_per_batch is null, and then memory is of no consequence.";
  return `Predicted by ${by}, for one core: ${sizes}, keys asked for ${skew}.${idle}`;
}

/** The what-if of a lookup, brought up to date by `update`; a control moves memory. */
export class WhatIf {
  constructor(relation) {
    this.measured = element("p", {});
    this.premises = element("p", { className: "note" });
    const range = { type: "range", min: 0, step: 1, "aria-label": `Memory of rows that wait for ${relation}` };
    this.range = element("input", { attributes: range });
    this.range.addEventListener("input", () => this.show());
    this.chosen = element("p", { attributes: { role: "status" } });
    this.turn = button("", () => this.send());
    this.said = element("p", { className: "note", attributes: { role: "status" } });
    this.graph = element("div", { className: "graph" });
    this.names = element("ul", { className: "strategies" });
    this.table = element("div", {});
    const label = element("label", { text: "Memory ", children: [this.range] });
    this.node = element("section", {
      className: "block what-if",
      attributes: { "aria-label": `What if ${relation} had other memory` },
      children: [
        element("h3", { text: `What if ${relation} had more memory, or less` }),
        this.measured,
        this.premises,
        element("div", { className: "buttons", children: [label, this.turn] }),
        this.chosen,
        this.said,
        this.graph,
        this.names,
        this.table,
      ],
    });
  }

  /** Takes a prediction, and what was measured. */
  update(forecast, pipeline, history, now) {
    const { relation, memory, by_memory: steps, live, made_at: made } = forecast;
    if (this.forecast?.memory !== memory || this.forecast.by_memory.length !== steps.length) {
      this.range.max = steps.length - 1;
      this.range.value = steps.findIndex((step) => step.memory === memory);
    }
    this.forecast = forecast;
    const { rates } = steps.find((step) => step.memory === memory);
    const best = fastest(possible(rates, forecast));
    const found = measured(relation, pipeline, history);
    const when = live ? "are predicted" : `were predicted ${ago(Math.max(0, now - made))}`;
    const told = found === null ? "not told apart" : `${written(found, "rows/s")}, ${percent(found, rates[best])} of it`;
    const predicted = `${written(rates[best], "rows/s")} ${when} (${best})`;
    setText(this.measured, `With ${written(memory, "bytes")}, ${predicted}; measured in the last batches: ${told}.`);
    setText(this.premises, premisesOf(forecast));
    this.show();
  }

  /** What is chosen, of the prediction there is. */
  show() {
    const { relation, knob, memory: held, by_memory: steps } = this.forecast;
    const chosen = Number(this.range.value);
    const { memory, rates } = steps[chosen];
    const strategies = Object.keys(rates).sort();
    const before = possible(steps.find((step) => step.memory === held).rates, this.forecast);
    const best = fastest(possible(rates, this.forecast));
    const size = written(memory, "bytes");
    const gain = beside(possible(rates, this.forecast)[best], before[fastest(before)]);
    this.range.setAttribute("aria-valuetext", size);
    const hybrid = `hybrid ${written(rates.hybrid, "rows/s")}`;
    setText(this.chosen, `With ${size}: ${written(rates[best], "rows/s")} (${best}), ${gain}; ${hybrid}.`);
    setText(this.turn, `Turn ${knob} to ${size}`);
    this.turn.disabled = memory === held;
    this.graph.replaceChildren(chart(this.forecast, strategies, chosen));
    setChildren(this.names, strategies.map((text, n) => element("li", { className: `series-${n + 1}`, text })));
    const rows = steps.map((step) => rowOf(step, strategies, this.forecast));
    const headings = ["Memory", ...strategies, "Fastest"];
    setChildren(this.table, [table(`Predicted for ${relation}, by memory`, headings, rows)]);
  }

  async send() {
    const { knob, by_memory: steps } = this.forecast;
    try {
      const { offset, by } = await setKnob(knob, steps[Number(this.range.value)].memory);
      setText(this.said, `Sent by ${by} as record ${offset}; it holds from the batch after the one that reads it`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setText(this.said, `${error.title}: ${error.message}`);
    }
  }
}
