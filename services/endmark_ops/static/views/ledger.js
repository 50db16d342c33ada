// The punctuation ledger: what each partition of a stream has promised, what that freed, and what broke it.

import { byId, element, setChildren, table } from "../dom.js";
import { NONE, ago, exact, percent, written } from "../format.js";
import { keysOf, parse } from "../data/samples.js";

const FROM_STREAM = "partition_punctuations_total";
const OF_PARTITIONS = [FROM_STREAM, "partition_violations_total", "partition_behind_seconds", "silent_partitions"];
const labelsOf = (key) => Object.fromEntries(parse(key).labels);

/** When the newest batch came that had one, or null if none on screen had. */
function newest(key, history) {
  return history.batches.findLast(({ samples }) => samples[key] > 0)?.committed_at ?? null;
}

function partitionsOf(stream, history) {
  const keys = OF_PARTITIONS.flatMap((metric) => keysOf(history.batches, metric));
  const numbers = keys.map(labelsOf).filter((labels) => labels.stream === stream);
  return [...new Set(numbers.map(({ partition }) => Number(partition)))].sort((a, b) => a - b);
}

/** What a partition means for its stream's progress. */
function progressOf(labels, totals) {
  if (totals[`idle_partitions{${labels}}`] > 0) return "idle, not waited for";
  if (totals[`silent_partitions{${labels}}`] > 0) return "no row yet, holds progress back";
  const behind = totals[`partition_behind_seconds{${labels}}`];
  if (behind === undefined) return NONE;
  return behind > 0 ? `${written(behind, "seconds")} behind` : "newest";
}

/** The ledger of a stream; `others` are the streams that it is joined with. */
function ofStream(stream, others, history, now) {
  const { totals } = history.last;
  const figure = (name, labels) => totals[`${name}{${labels}}`] ?? 0;
  const rows = partitionsOf(stream, history).map((partition) => {
    const labels = `partition=${partition},stream=${stream}`;
    const at = newest(`${FROM_STREAM}{${labels}}`, history);
    const promised = figure(FROM_STREAM, labels);
    const broken = figure("partition_violations_total", labels);
    const when = at === null ? NONE : ago(Math.max(0, now - at));
    return [`partition ${partition}`, exact(promised), when, exact(broken), progressOf(labels, totals)];
  });
  const ofOthers = (name) => exact(others.reduce((sum, other) => sum + figure(name, `stream=${other}`), 0));
  const freed = ofOthers("join_purged_rows_total");
  const spared = ofOthers("join_dropped_rows_total");
  const together = others.length > 1 ? "with the other streams, " : "";
  const all = figure("rows_total", `stream=${stream}`);
  const broken = rows.reduce((sum, row) => sum + Number(row[3].replaceAll(",", "")), 0);
  const facts = [
    ...(others.length ? [`${together}freed ${freed} rows of ${others.join(", ")} and kept ${spared} from being stored`] : []),
    `${percent(broken, all)} of its rows were violations`,
    `remembers ${exact(figure("closed_keys", `stream=${stream}`))} keys as closed`,
  ];
  return element("div", {
    className: "block",
    children: [
      element("h3", { text: stream }),
      element("p", { className: "note", text: facts.join("; ") }),
      table(`Promises of ${stream}`, ["Partition", "Promises", "Newest", "Violations", "Progress"], rows),
    ],
  });
}

/** Shows the ledger of each stream. */
export function showLedger({ pipeline, history, status }) {
  if (!pipeline || !history.last) return;
  const names = pipeline.streams.map(({ name }) => name);
  const others = (name) => names.filter((each) => each !== name);
  setChildren(
    byId("ledger-tables"),
    names.map((name) => ofStream(name, others(name), history, status.now)),
  );
}
