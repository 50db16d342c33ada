// What a lookup would yield with more memory or less: as predicted, beside what was measured.

import { element, setText, svg, table } from "./dom.js";
import { ago, exact, percent, tick, written } from "./format.js";

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
function chart({ relation, by_memory: steps }, strategies) {
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
  steps.forEach(({ memory }, i) => {
    picture.append(svg("text", { x: x(i), y: SIZE.height - 8, class: "tick x" }, tick(memory, "bytes")));
  });
  strategies.forEach((strategy, n) => {
    const points = steps.map(({ rates }, i) => `${x(i)},${y(rates[strategy])}`);
    picture.append(svg("path", { class: `rates series-${n + 1}`, d: `M${points.join(" L")}` }));
  });
  return picture;
}

function rowOf({ memory, rates }, strategies, planned) {
  const best = fastest(rates);
  const cells = strategies.map((each) => {
    const text = written(rates[each], "rows/s");
    return each === best ? element("strong", { text }) : text;
  });
  return [`${written(memory, "bytes")}${memory === planned ? " (as planned)" : ""}`, ...cells, best];
}

/** The what-if of a lookup, whose `measured` is brought up to date by `update`. */
export class WhatIf {
  constructor(forecast) {
    const { relation, by_memory: steps } = forecast;
    this.forecast = forecast;
    this.text = JSON.stringify(forecast);
    const strategies = Object.keys(steps[0].rates).sort();
    this.measured = element("p", {});
    const made = element("p", { className: "note", text: this.premises() });
    const names = strategies.map((text, n) => element("li", { className: `series-${n + 1}`, text }));
    const rows = steps.map((step) => rowOf(step, strategies, forecast.memory));
    this.node = element("section", {
      className: "block what-if",
      attributes: { "aria-label": `What if ${relation} had other memory` },
      children: [
        element("h3", { text: `What if ${relation} had more memory, or less` }),
        this.measured,
        made,
        element("div", { className: "graph", children: [chart(forecast, strategies)] }),
        element("ul", { className: "strategies", children: names }),
        table(`Predicted for ${relation}, by memory`, ["Memory", ...strategies, "Fastest"], rows),
      ],
    });
  }

  premises() {
    const { relation_rows: rows, page_rows: page, batch_rows: batch, exponent } = this.forecast;
    const skew = exponent ? `by Zipf's law with exponent ${exponent}` : "evenly";
    const sizes = `${exact(rows)} rows in pages of ${exact(page)}, batches of ${exact(batch)} stream rows`;
    return `Predicted by endmark plan for one core: ${sizes}, keys asked for ${skew}.`;
  }

  update(pipeline, history, now) {
    const { relation, memory, made_at: made, by_memory: steps } = this.forecast;
    const rates = steps.find((step) => step.memory === memory).rates;
    const best = fastest(rates);
    const found = measured(relation, pipeline, history);
    const predicted = `${written(rates[best], "rows/s")} were predicted ${ago(Math.max(0, now - made))} (${best})`;
    const told = found === null ? "not told apart" : `${written(found, "rows/s")}, ${percent(found, rates[best])} of it`;
    setText(this.measured, `With ${written(memory, "bytes")}, ${predicted}; measured in the last batches: ${told}.`);
  }
}
