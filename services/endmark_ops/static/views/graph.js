// The pipeline as a picture, from left to right: streams, steps, and the tables and topics that get rows, with rates.

import { byId, setItems, svg } from "../dom.js";
import { NONE, written } from "../format.js";
import { placesOf } from "./graph_layout.js";
import { sumOf } from "../data/samples.js";
import { reasonsToWait, silentStreams } from "./waits.js";

const HEIGHT = 68;
const PITCH = 82;
const GAP = 32;
const MARGIN = 12;
const PADDING = 10;
const WIDTHS = { least: 144, most: 208 };
const LETTERS = { title: 8.4, about: 6.5 }; // pixels of one, on average
const KINDS = { rows: "row step", lookup: "lookup", union: "union", join: "join", aggregate: "aggregate" };

/** Boxes {id, title, about, detail, inputs, sink, tone} of a pipeline. */
function boxesOf(pipeline, history, status) {
  const { totals = {} } = history.last ?? {};
  const rates = (metrics, unit) => {
    const each = metrics.map((metric) => history.rate(metric, status.now));
    return written(each.includes(null) ? null : each.reduce((sum, one) => sum + one, 0), unit);
  };
  const figures = {
    rate: (metric, unit) => rates([metric], unit),
    rates,
    total: (metric, unit) => written(sumOf(totals, metric), unit),
    sum: (metrics, unit) => written(metrics.reduce((sum, each) => sum + (totals[each] ?? 0), 0), unit),
    has: (metric) => metric in totals,
  };
  return [
    ...streamsOf(pipeline, figures, silentStreams(pipeline, history, status.now)),
    ...stepsOf(pipeline, figures),
    ...sinksOf(pipeline, figures),
  ];
}

function streamsOf(pipeline, { rate }, silent) {
  const quiet = new Set(silent.map(({ name }) => name));
  return pipeline.streams.map(({ name, topic }) => ({
    id: name,
    title: name,
    about: `topic ${topic}`,
    detail: quiet.has(name) ? "idle: no record" : rate(`records_total{stream=${name}}`, "records/s"),
    inputs: [],
    tone: quiet.has(name) ? "blocked" : "",
  }));
}

function stepsOf({ steps }, figures) {
  return steps.map((step) => ({
    id: step.name,
    title: step.name,
    about: step.relation ? `${KINDS[step.kind]} in ${step.relation}` : KINDS[step.kind],
    detail: detailOf(step, streamsBehind(step, steps), figures),
    inputs: step.inputs,
    tone: "step",
  }));
}

/** The streams whose rows come to a step, and the unions of them. */
function streamsBehind({ inputs }, steps) {
  return inputs.flatMap((input) => {
    const before = steps.find(({ name }) => name === input);
    if (!before) return [input];
    return before.kind === "union" ? [input, ...streamsBehind(before, steps)] : streamsBehind(before, steps);
  });
}

function detailOf({ name, kind, relation, inputs }, streams, { rate, rates, total, has, sum }) {
  switch (kind) {
    case "rows": {
      const ofRows = streams.map((stream) => `filtered_rows_total{step=${name},stream=${stream}}`);
      const behindJoin = `filtered_results_total{step=${name}}`;
      const filtered = [...ofRows, behindJoin].filter(has);
      return filtered.length ? `filters ${rates(filtered, "rows/s")}` : "filters no row";
    }
    case "union":
      return `of ${inputs.length} streams`;
    case "lookup":
      return `${total(`lookup_pending_rows{relation=${relation}}`, "rows")} wait`;
    case "join":
      return `${sum(streams.map((stream) => `state_rows{operator=join,stream=${stream}}`), "rows")} in state`;
    default:
      return rate(`groups_closed_total{step=${name}}`, "groups/s");
  }
}

function sinksOf({ tables, published }, { rate, total, has }) {
  const ofStep = (step) => `step_rows_total{step=${step}}`;
  const figures = {
    results: (step) => rate(has(ofStep(step)) ? ofStep(step) : "join_results_total", "rows/s"),
    groups: (step) => total(`groups_closed_total{step=${step}}`, "rows"),
    running: (step) => total(`running_groups_total{step=${step}}`, "rows"),
    dead_letters: () => total("dead_letters_total", "records"),
    violations: () => total("violations_total", "rows"),
    punctuations: () => total("propagated_punctuations_total", "punctuations"),
    step: (step) => rate(ofStep(step), "rows/s"),
    latest: (step) => rate(`upserted_rows_total{step=${step}}`, "rows/s"),
  };
  const sink = (about, name, step, detail) => ({
    id: `${about} ${name}`,
    title: name,
    about,
    detail,
    inputs: [step],
    sink: true,
  });
  return [
    ...published.map(({ name, rows, step }) => sink("topic", name, step, figures[rows](step))),
    ...tables.map(({ name, rows, step }) => sink("table", name, step, figures[rows](step))),
  ];
}

/** A box in words, for screen readers and as a hint. */
function wordsOf({ title, about, detail, inputs }) {
  const from = inputs.length ? ` from ${inputs.join(", ")}` : "";
  return `${title}, ${about}${from}: ${detail}`;
}

/** Left edges of the columns and their widths, each for the longest name in it. */
function columnsOf(boxes, places) {
  const columns = [];
  for (const { id, title, about } of boxes) {
    const { column } = places.get(id);
    const text = Math.max(title.length * LETTERS.title, about.length * LETTERS.about) + 2 * PADDING;
    const width = Math.min(WIDTHS.most, Math.max(WIDTHS.least, Math.ceil(text)));
    columns[column] = { width: Math.max(width, columns[column]?.width ?? 0) };
  }
  let x = MARGIN;
  for (const column of columns) {
    column.x = x;
    x += column.width + GAP;
  }
  return columns;
}

function drawn(boxes) {
  const places = placesOf(boxes);
  const columns = columnsOf(boxes, places);
  const rows = [...places.values()].map(({ row }) => row);
  const areas = new Map(
    [...places].map(([id, { column, row }]) => [
      id,
      { ...columns[column], y: MARGIN + (row - Math.min(...rows)) * PITCH },
    ]),
  );
  const { x, width: last } = columns.at(-1);
  const width = x + last + MARGIN;
  const height = (Math.max(...rows) - Math.min(...rows)) * PITCH + HEIGHT + 2 * MARGIN;
  const label = boxes.map(wordsOf).join("; ");
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  const picture = svg("svg", { ...size, role: "img", "aria-label": label });
  for (const each of boxes)
    for (const input of each.inputs) picture.append(line(areas.get(input), areas.get(each.id), each.sink));
  for (const each of boxes) picture.append(boxOf(each, areas.get(each.id)));
  return picture;
}

/** A line stays in the row of its box: to a sink in that of the sink, to a step in that of its input. */
function line(from, to, isSink) {
  const [x1, x2] = [from.x + from.width, to.x];
  const [y1, y2] = [from.y, to.y].map((y) => y + HEIGHT / 2);
  const [start, end] = isSink ? [x1, x1 + GAP] : [x2 - GAP, x2];
  const half = (start + end) / 2;
  return svg("path", { class: "line", d: `M${x1},${y1} H${start} C${half},${y1} ${half},${y2} ${end},${y2} H${x2}` });
}

function boxOf(box, { x, y, width }) {
  const { title, about, detail, tone = "" } = box;
  const group = svg("g", { class: `part ${tone}`, transform: `translate(${x} ${y})` });
  group.append(svg("rect", { width, height: HEIGHT, rx: 8 }));
  const fitting = (text, letter) => shortened(text, Math.floor((width - 2 * PADDING) / letter));
  group.append(svg("text", { x: PADDING, y: 21, class: "title" }, fitting(title, LETTERS.title)));
  group.append(svg("text", { x: PADDING, y: 39, class: "about" }, fitting(about, LETTERS.about)));
  group.append(svg("text", { x: PADDING, y: 57, class: "detail" }, detail || NONE));
  group.append(svg("title", {}, wordsOf(box)));
  return group;
}

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);

/** Shows the graph and what waits for what. */
export function showGraph({ pipeline, history, status }) {
  if (!pipeline) {
    setItems(byId("blocks"), ["no job of this pipeline has told what it is made of"]);
    return;
  }
  byId("graph-picture").replaceChildren(drawn(boxesOf(pipeline, history, status)));
  setItems(byId("blocks"), reasonsToWait(pipeline, history, status));
}
