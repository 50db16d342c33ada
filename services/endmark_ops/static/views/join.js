// The state of the stream join: as `endmark plan` predicted it, beside what batches have measured since.

import { fetchForecasts } from "../data/api.js";
import { byId, element, setChildren, table } from "../dom.js";
import { NONE, ago, percent, written } from "../format.js";

const MEANING =
  "A row stays in state while a later row of another stream may still meet it. A key is announced when its results " +
  "are complete; the time counts from its first punctuation.";
const PRESETS = "A preset says when rows leave state and when keys are announced. No preset changes a result.";

const rows = (count) => (count === null ? "grow for ever" : written(Math.round(count), "rows"));
const size = (bytes) => (bytes === null ? "grows for ever" : written(bytes, "bytes"));
const time = (seconds) => (seconds === null ? "never" : written(seconds, "seconds"));

/** A figure of all streams together; null if it grows for ever for one of them. */
function together({ streams }, figure) {
  const values = streams.map((each) => each[figure]);
  return values.includes(null) ? null : values.reduce((sum, each) => sum + each, 0);
}

const both = ({ streams }) => (streams.length > 2 ? "all" : "both");

function windowsOf({ windows, streams }) {
  const each = windows.map((span, i) => `${span === null ? "none" : written(span, "seconds")} for ${streams[i].stream}`);
  return windows.every((span) => span === null) ? "no windows" : `windows: ${each.join(", ")}`;
}

/** Whether the job has the preset, the windows and the streams that a prediction was made for. */
const isOf = (forecast, measured) =>
  ["preset", "windows"].every((name) => String(forecast[name]) === String(measured[name])) &&
  forecast.streams.every(({ stream }, i) => stream === measured.streams[i].stream);

/** Rows of figures; `predicted` and `measured` are states of the join, or null. */
function figuresOf(predicted, measured) {
  const names = (measured ?? predicted).streams.map(({ stream }) => stream);
  const figures = [
    ...names.map((name, i) => [`Rows of ${name}`, rows, ({ streams }) => streams[i].rows]),
    [`Rows of ${both(measured ?? predicted)}`, rows, (state) => together(state, "rows")],
    [`Bytes of ${both(measured ?? predicted)}`, size, (state) => together(state, "bytes")],
    ["Time until a key is announced", time, (state) => state.announced_after],
  ];
  return figures.map(([name, write, of]) => {
    const [expected, found] = [predicted, measured].map((state) => state && of(state));
    const share = expected === null || found === null ? NONE : percent(found, expected);
    return [name, predicted ? write(expected) : NONE, found === null ? NONE : write(found), share];
  });
}

function sourceOf({ measured_until: until, given }, now) {
  if (until === null) return "the figures that were given to it";
  const batches = `the batches up to ${ago(Math.max(0, now - until))}`;
  return given ? `the figures that were given to it and ${batches}` : batches;
}

function premisesOf({ streams, lag, left_first: first, purge_every: every }) {
  const averages = streams.map(({ stream, rate, interval, until_closed: closed, row_bytes: bytes }) => {
    const punctuations = interval === null ? "no punctuations" : `a punctuation every ${written(interval, "rows")}`;
    const end = closed === null ? "no key of it is closed" : `a row's key is closed after ${written(closed, "seconds")}`;
    return `${stream}: ${written(rate, "rows/s")} of ${written(bytes, "bytes")}, ${punctuations}, ${end}`;
  });
  const [{ stream: left }] = streams;
  if (lag !== null) averages.push(`the streams close a key ${written(lag, "seconds")} apart, ${left} first for ${percent(first, 1)}`);
  if (every > 1) averages.push(`state is purged after ${every} punctuations`);
  return `Predicted for these averages: ${averages.join("; ")}.`;
}

function measuredOver(measured, forecast) {
  if (measured === null) return "Nothing is measured since: that takes two more batches.";
  const { batches: count } = measured;
  const word = count === 1 ? "batch" : "batches";
  const later = forecast && forecast.measured_until !== null;
  return `Measured: the average of ${later ? `${count} later ${word}` : `the last ${count} ${word}`}.`;
}

function othersOf({ preset, by_preset: all }) {
  const others = all.filter((each) => each.preset !== preset);
  return others.map((state) => [
    state.preset,
    state.frees.join(" or ") || "nothing",
    rows(together(state, "rows")),
    size(together(state, "bytes")),
    time(state.announced_after),
  ]);
}

function blockOf(title, children) {
  const head = element("h3", { text: title });
  return element("section", { className: "block", attributes: { "aria-label": title }, children: [head, ...children] });
}

/** The blocks of the view; `forecast` and `measured` may be null, but not both. */
function blocksOf(forecast, measured, now) {
  const note = (text) => element("p", { className: "note", text });
  const predicted = forecast && forecast.by_preset.find(({ preset }) => preset === forecast.preset);
  const headings = ["Figure", "Predicted", "Measured", "Measured of predicted"];
  const made = forecast && `Predicted by endmark plan ${ago(Math.max(0, now - forecast.made_at))}, from ${sourceOf(forecast, now)}. `;
  const about = forecast ?? measured;
  const found = blockOf(`Preset ${about.preset}, ${windowsOf(about)}`, [
    element("p", { text: (made ?? "") + measuredOver(measured, forecast) }),
    table("State of the join, predicted and measured", headings, figuresOf(predicted, measured)),
    note(MEANING),
    ...(forecast ? [note(premisesOf(forecast))] : []),
  ]);
  if (!forecast) return [found];
  const columns = ["Preset", "Rows leave state by", `Rows of ${both(forecast)}`, `Bytes of ${both(forecast)}`, "A key is announced after"];
  const others = table("State of the join under other presets, predicted", columns, othersOf(forecast));
  return [found, blockOf("Other presets", [note(PRESETS), others])];
}

/** Shows the state of the join. A prediction for another preset or other windows is not held against the job. */
export async function showJoin({ history, status }) {
  if (!history.last) return;
  const { join, join_measured: measured } = await fetchForecasts();
  const forecast = join && (measured === null || isOf(join, measured)) ? join : null;
  setChildren(byId("join-tables"), forecast || measured ? blocksOf(forecast, measured, status.now) : []);
  byId("join-no-plan").hidden = forecast !== null;
  byId("join-other-plan").hidden = join === forecast;
}
