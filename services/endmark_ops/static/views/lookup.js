// The lookup plan: what each strategy was expected to take, what was read, and what waits.

import { fetchForecasts, fetchWhatIfs } from "../data/api.js";
import { byId, element, setChildren, table } from "../dom.js";
import { percent, written } from "../format.js";
import { parse } from "../data/samples.js";
import { strategyOf } from "./strategy.js";
import { WhatIf } from "./what_if.js";

/** Values of a metric of one relation by another label. */
function series(samples, metric, relation, label) {
  const found = Object.keys(samples).map((key) => [key, parse(key)]);
  return found.flatMap(([key, { name, labels }]) => {
    const all = Object.fromEntries(labels);
    return name === metric && all.relation === relation ? [[all[label], samples[key]]] : [];
  });
}

/** The newest batch on screen that read the relation, as its samples. */
function lastRead(history, relation) {
  const key = `lookup_read_seconds_total{relation=${relation}}`;
  return history.batches.findLast(({ samples }) => samples[key] > 0)?.samples ?? null;
}

function rate(rows, seconds) {
  return seconds > 0 ? written(rows / seconds, "rows/s") : written(null);
}

function ofRelation({ place, stream, relation }, history) {
  const { totals } = history.last;
  const total = (metric) => totals[`${metric}{relation=${relation}}`] ?? 0;
  const read = lastRead(history, relation) ?? {};
  const of = (metric) => read[`${metric}{relation=${relation}}`] ?? 0;
  const measured = of("lookup_read_seconds_total");
  const expected = new Map(series(totals, "lookup_expected_seconds", relation, "strategy"));
  const plans = [...expected].map(([strategy, seconds]) => [strategy, written(seconds, "seconds")]);
  const kinds = series(totals, "lookup_reads_total", relation, "by");
  const age = total("lookup_cache_age_seconds");
  const facts = [
    ["Measured in the last batch that read", `${written(measured, "seconds")} of reading`],
    ["Stream rows a second of reading then", rate(of("lookup_rows_total"), measured)],
    ["Relation rows a second of reading then", rate(of("lookup_read_rows_total"), measured)],
    ...kinds.map(([by, count]) => [`Reads by ${by} so far`, written(count, "reads")]),
    ["Rows that wait", written(total("lookup_pending_rows"), "rows")],
    ["Memory of waiting rows", `${written(total("lookup_pending_bytes") + total("lookup_held_bytes"), "bytes")}`],
    ["Memory they may take", written(total("lookup_memory_bytes"), "bytes")],
    ["Rows that are parked", written(total("lookup_parked_rows"), "rows")],
    ["Answered by the cache", percent(total("lookup_cached_rows_total"), total("lookup_rows_total"))],
    ["Oldest answer of the cache", age ? written(age, "seconds") : written(null)],
  ];
  return element("section", {
    className: "block",
    attributes: { "aria-label": `Lookup in ${relation}` },
    children: [
      element("h3", { text: `${stream} look up ${relation} (${place})` }),
      element("div", {
        className: "columns",
        children: [
          // Only auto expects anything.
          ...(plans.length ? [table(`Expected for ${relation}, by strategy`, ["Strategy", "Expected for what waited"], plans)] : []),
          table(`Measured of ${relation}`, ["Figure", "Value"], facts),
        ],
      }),
    ],
  });
}

const whatIfs = new Map();
const skew = element("input", { className: "skew", attributes: { type: "number", min: 0, max: 3, step: 0.1, placeholder: "as planned" } });
let again = () => {};

/** The exponent that is to be supposed; null leaves it as it was planned. */
const exponent = () => (skew.value !== "" && skew.checkValidity() ? Number(skew.value) : null);

function ask() {
  skew.addEventListener("change", () => again());
  const label = element("label", { text: "Skew of the keys, as Zipf's exponent ", children: [skew] });
  return element("p", { children: [label] });
}

/** What is predicted of each lookup now, or else was by `endmark plan`; what stays keeps focus and place. */
async function showWhatIfs(pipeline, history, status) {
  const [{ lookups: planned }, live] = await Promise.all([fetchForecasts(), fetchWhatIfs(exponent())]);
  const shown = pipeline.lookups.flatMap(({ relation, place }) => {
    const now = live.find((each) => each.relation === relation);
    const before = planned.find((each) => each.relation === relation);
    if (now) return [{ ...now, live: true }];
    return before ? [{ ...before, live: false, knob: `${place}.memory`, waits: true }] : [];
  });
  const names = shown.map(({ relation }) => relation);
  if (names.join() !== [...whatIfs.keys()].join()) {
    whatIfs.clear();
    for (const name of names) whatIfs.set(name, new WhatIf(name));
    const nodes = [...whatIfs.values()].map(({ node }) => node);
    byId("lookup-what-if").replaceChildren(...(names.length ? [ask()] : []), ...nodes);
  }
  setChildren(byId("lookup-strategies"), live.map(strategyOf));
  for (const each of shown) whatIfs.get(each.relation).update(each, pipeline, history, status.now);
  byId("lookup-no-plan").hidden = shown.length > 0 || pipeline.lookups.length === 0;
}

/** Shows the plan of every lookup. */
export async function showLookup({ pipeline, history, status }) {
  if (!pipeline || !history.last) return;
  const none = element("p", { text: "This pipeline looks nothing up." });
  const found = pipeline.lookups.map((lookup) => ofRelation(lookup, history));
  setChildren(byId("lookup-tables"), found.length ? found : [none]);
  again = () => showWhatIfs(pipeline, history, status);
  await again();
}
