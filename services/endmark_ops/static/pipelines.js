// The list of all pipelines, one line each. If there is only one, its own views are shown at once.

import { ApiError, fetchPipelines } from "./data/api.js";
import { byId, element, setChildren, setText, table } from "./dom.js";
import { NONE, ago, duration, exact, momentOf, written } from "./format.js";

const ASK_MS = 2000;
const HEADINGS = ["Pipeline", "State", "Alerts", "Lag", "Throughput", "Oldest progress", "Last batch"];

const pathOf = (name) => `pipelines/${encodeURIComponent(name)}/`;

function progressOf({ oldest_progress: oldest }) {
  if (oldest === null) return NONE;
  if (oldest.event_time === null) return `${oldest.stream}: none yet`;
  const behind = oldest.behind_seconds ? `, ${duration(oldest.behind_seconds)} behind` : "";
  return `${oldest.stream}: ${momentOf(oldest.event_time)}${behind}`;
}

function rowOf(pipeline) {
  const { pipeline: name, state, lag_records: lag, records_per_second: rate, alerts } = pipeline;
  const age = pipeline.last_batch_age_seconds;
  return [
    element("a", { text: name, attributes: { href: pathOf(name) } }),
    element("span", { className: "state", text: state, attributes: { "data-state": state } }),
    alerts.length ? element("ul", { children: alerts.map((text) => element("li", { text })) }) : "none",
    lag === null ? "unknown" : `${exact(lag)} records`,
    rate === null ? NONE : written(rate, "records/s"),
    progressOf(pipeline),
    age === null ? NONE : ago(age),
  ];
}

function draw(pipelines) {
  byId("problem").hidden = true;
  byId("empty").hidden = pipelines.length > 0;
  const parts = pipelines.length ? [table("Pipelines", HEADINGS, pipelines.map(rowOf))] : [];
  setChildren(byId("pipelines"), parts);
}

async function keepUp() {
  for (;;) {
    try {
      const pipelines = await fetchPipelines();
      if (pipelines.length === 1) return location.replace(pathOf(pipelines[0].pipeline) + location.hash);
      draw(pipelines);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setText(byId("problem-title"), error.title);
      setText(byId("problem-text"), error.message);
      byId("problem").hidden = false;
    }
    await new Promise((resolve) => setTimeout(resolve, ASK_MS));
  }
}

setText(byId("zone"), `Times in ${Intl.DateTimeFormat().resolvedOptions().timeZone}`);
keepUp();
