// The state that operators keep, beside what bounds it by the pipeline file, as `endmark validate` says it.

import { byId, setChildren, table } from "../dom.js";
import { NONE, exact, written } from "../format.js";
import { parse } from "../data/samples.js";

/** Sum of a metric over the series whose labels meet a condition; null where there is none. */
function sumWhere(totals, metric, isMeant) {
  const keys = Object.keys(totals).filter((key) => {
    const { name, labels } = parse(key);
    return name === metric && isMeant(Object.fromEntries(labels));
  });
  return keys.length ? keys.reduce((sum, key) => sum + totals[key], 0) : null;
}

/** [rows, bytes] that a state has now. */
function sizesOf({ input, holds }, totals) {
  const isGroups = holds === "groups";
  const isMeant = ({ operator, stream }) => (operator === "aggregate") === isGroups && stream === input;
  if (holds === "closed keys") return [sumWhere(totals, "closed_keys", ({ stream }) => stream === input), null];
  if (holds !== "rows" && !isGroups) return [null, null];
  return ["state_rows", "state_bytes"].map((metric) => sumWhere(totals, metric, isMeant));
}

function rowOf(state, totals) {
  const [rows, bytes] = sizesOf(state, totals);
  return [state.name, rows === null ? NONE : exact(rows), bytes === null ? NONE : written(bytes, "bytes"), state.bound];
}

export function showStates({ pipeline, history }) {
  if (!pipeline || !history.last) return;
  const rows = pipeline.states.map((state) => rowOf(state, history.last.totals));
  setChildren(byId("states-table"), [table("Kinds of state", ["State", "Now", "Size", "Bound"], rows)]);
}
