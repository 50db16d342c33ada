// The pipeline as a picture: streams, lookups, join and tables from left to right, with rates. A stream alone has no
// join, so its lookups lead to the tables.

import { byId, setItems, svg } from "./dom.js";
import { NONE, written } from "./format.js";
import { sumOf } from "./samples.js";
import { reasonsToWait, silentStreams } from "./waits.js";

const BOX = { width: 176, height: 58 };
const STEP = { x: 232, y: 84 };
const MARGIN = 12;

/** Boxes {id, title, detail, column, row, tone}, and the lines between them by id. */
function parts(pipeline, history, status) {
  const rate = (metric, unit) => written(history.rate(metric, status.now), unit);
  const total = (metric, unit) => written(sumOf(history.last?.totals ?? {}, metric), unit);
  const sinks = sinksOf(pipeline, rate, total);
  const middle = (sinks.length - 1) / 2;
  const streams = streamsOf(pipeline, rate, silentStreams(pipeline, history, status.now), middle);
  const lookups = lookupsOf(pipeline, total, streams);
  const detail = `${total("state_rows", "rows")} in state`;
  const joins = streams.length > 1 ? [{ id: "join", title: "join", detail, row: middle }] : [];
  const groups = pipeline.aggregate
    ? [{ id: "group", title: "closing group-by", detail: rate("groups_closed_total", "groups/s"), row: 0 }]
    : [];
  for (const [column, boxes] of [streams, lookups, joins, groups, sinks].filter(({ length }) => length).entries())
    for (const each of boxes) each.column = column;
  const asked = new Set(lookups.map(({ stream }) => stream));
  const ready = [...streams.filter(({ id }) => !asked.has(id)), ...lookups].map(({ id }) => id);
  const last = joins.length ? ["join"] : ready;
  const feeding = ({ part }) => (["groups", "running"].includes(part) ? ["group"] : last);
  const lines = [
    ...lookups.map(({ id, stream }) => [stream, id]),
    ...joins.flatMap(({ id }) => ready.map((from) => [from, id])),
    ...groups.flatMap(({ id }) => last.map((from) => [from, id])),
    ...sinks.flatMap((sink) => feeding(sink).map((from) => [from, sink.id])),
  ];
  return { boxes: [...streams, ...lookups, ...joins, ...groups, ...sinks], lines };
}

/** Side by side around the middle, the left one above. */
function streamsOf(pipeline, rate, silent, middle) {
  const quiet = new Set(silent.map(({ name }) => name));
  return pipeline.streams.map(({ name, topic }, i) => ({
    id: name,
    title: name,
    detail: quiet.has(name) ? "idle: no record comes" : rate(`records_total{stream=${name}}`, "records/s"),
    hint: `topic ${topic}`,
    tone: quiet.has(name) ? "blocked" : "",
    row: middle + i - (pipeline.streams.length - 1) / 2,
  }));
}

/** Beside their streams, further ones away from the middle. */
function lookupsOf(pipeline, total, streams) {
  return streams.flatMap(({ id, row }, i) =>
    pipeline.lookups
      .filter(({ stream }) => stream === id)
      .map(({ step, stream, relation }, n) => ({
        id: step,
        stream,
        title: `lookup ${relation}`,
        detail: `${total(`lookup_pending_rows{relation=${relation}}`, "rows")} wait`,
        row: row + (i === 0 ? -n : n),
      })),
  );
}

/** The tables, those of the groups above, beside what feeds them. */
function sinksOf(pipeline, rate, total) {
  const found = [
    ...(pipeline.aggregate ? [["groups", total("groups_closed_total", "rows")]] : []),
    ...(pipeline.tables.running ? [["running", total("running_groups_total", "rows")]] : []),
    ["results", rate("join_results_total", "rows/s")],
    ["dead_letters", total("dead_letters_total", "records")],
    ["violations", total("violations_total", "rows")],
    ["punctuations", total("propagated_punctuations_total", "punctuations")],
  ];
  return found.map(([part, detail], row) => ({
    id: `table ${part}`,
    part,
    title: pipeline.tables[part],
    detail,
    row,
  }));
}

function drawn(boxes, lines, label) {
  const rows = boxes.map(({ row }) => row);
  const top = Math.min(...rows);
  const width = Math.max(...boxes.map(({ column }) => column)) * STEP.x + BOX.width + 2 * MARGIN;
  const height = (Math.max(...rows) - top) * STEP.y + BOX.height + 2 * MARGIN;
  const places = new Map(
    boxes.map(({ id, column, row }) => [id, { x: MARGIN + column * STEP.x, y: MARGIN + (row - top) * STEP.y }]),
  );
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const [from, to] of lines) picture.append(line(places.get(from), places.get(to)));
  for (const part of boxes) picture.append(box(part, places.get(part.id)));
  return picture;
}

function line(from, to) {
  const [x1, x2] = [from.x + BOX.width, to.x];
  const [y1, y2] = [from.y + BOX.height / 2, to.y + BOX.height / 2];
  const half = (x1 + x2) / 2;
  return svg("path", { class: "line", d: `M${x1},${y1} C${half},${y1} ${half},${y2} ${x2},${y2}` });
}

function box({ title, detail, hint = null, tone = "" }, { x, y }) {
  const group = svg("g", { class: `part ${tone}`, transform: `translate(${x} ${y})` });
  group.append(svg("rect", { ...BOX, rx: 8 }));
  group.append(svg("text", { x: 12, y: 24, class: "title" }, title));
  group.append(svg("text", { x: 12, y: 44, class: "detail" }, detail || NONE));
  if (hint) group.append(svg("title", {}, hint));
  return group;
}

/** Shows the graph and what waits for what. */
export function showGraph({ pipeline, history, status }) {
  if (!pipeline) {
    setItems(byId("blocks"), ["no job of this pipeline has told what it is made of"]);
    return;
  }
  const { boxes, lines } = parts(pipeline, history, status);
  const label = boxes.map(({ title, detail }) => `${title}: ${detail}`).join("; ");
  byId("graph-picture").replaceChildren(drawn(boxes, lines, label));
  setItems(byId("blocks"), reasonsToWait(pipeline, history, status));
}
