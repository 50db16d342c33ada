// The strip of key figures.

import { element, setText } from "../dom.js";
import { NONE, percent, quantity, written } from "../format.js";
import { sumOf } from "../data/samples.js";

const RECENT_SECONDS = 300;

const TILES = [
  {
    name: "Records in",
    unit: "/s",
    value: ({ rate }) => rate("records_total"),
    detail: ({ total }) => `${written(total("records_total"), "records")} so far`,
  },
  {
    name: "Results out",
    unit: "/s",
    value: ({ rate }) => rate("join_results_total"),
    detail: ({ total }) => `${written(total("join_results_total"), "results")} so far`,
  },
  {
    name: "Latency, p50",
    unit: "seconds",
    value: ({ latency }) => latency("p50_seconds"),
    detail: ({ latency }) => `p99 ${written(latency("p99_seconds"), "seconds")}`,
  },
  {
    name: "Live state",
    unit: "rows",
    value: ({ total }) => total("state_rows"),
    detail: ({ total }) => `in ${written(total("state_bytes"), "bytes")}`,
  },
  {
    name: "Lag",
    unit: "records",
    value: ({ lag }) => lag,
    detail: ({ lag, rate, isRead }) => behind(lag, rate("records_total"), isRead),
  },
  {
    name: "Dead letters",
    unit: "records",
    value: ({ total }) => total("dead_letters_total") ?? 0,
    detail: ({ total }) => `${percent(total("dead_letters_total") ?? 0, total("records_total"))} of records`,
    notable: true,
  },
  {
    name: "Violations",
    unit: "rows",
    value: ({ total }) => total("violations_total") ?? 0,
    detail: ({ total }) => `${percent(total("violations_total") ?? 0, total("rows_total"))} of rows`,
    notable: true,
  },
  {
    name: "Groups closed",
    unit: "groups",
    value: ({ total }) => total("groups_closed_total") ?? 0,
    detail: ({ rate }) => written(rate("groups_closed_total"), "groups/s"),
  },
];

function behind(lag, rate, isRead) {
  if (lag === null) return "unknown";
  if (lag === 0) return "caught up";
  if (!isRead) return "in Kafka, no job reads";
  return lag && rate ? `\u2248\u00a0${written(lag / rate, "seconds")} of input` : NONE;
}

const most = (values) => (values.length ? Math.max(...values) : null);

/** Puts the tiles into a list and returns what brings them up to date. */
export function createTiles(parent) {
  const shown = TILES.map((tile) => {
    const number = element("span", { className: "number", text: NONE });
    const unit = element("span", { className: "unit" });
    const detail = element("dd", { className: "detail", text: "\u00a0" });
    const value = element("dd", { className: "figure", children: [number, " ", unit] });
    const node = element("div", {
      className: "tile",
      children: [element("dt", { text: tile.name }), value, detail],
    });
    parent.append(node);
    return { tile, node, number, unit, detail };
  });
  return (history, status) => {
    const figures = figuresOf(history, status);
    for (const { tile, node, number, unit, detail } of shown) {
      const value = history.last ? tile.value(figures) : null;
      const [digits, measure] = quantity(value, tile.unit);
      setText(number, digits);
      setText(unit, measure);
      setText(detail, history.last ? tile.detail(figures) : "\u00a0");
      node.classList.toggle("notable", Boolean(tile.notable && value > 0));
    }
  };
}

function figuresOf(history, { state, now, lag_records: lag, latency, last_batch: batch }) {
  // After its end a run reads nothing, however young its last batch is.
  const isRead = !["done", "stopped", "failed", "lost"].includes(state);
  const until = isRead ? now : Infinity;
  return {
    lag,
    isRead,
    rate: (metric) => history.rate(metric, until),
    total: (metric) => sumOf(history.last.totals, metric),
    // That of the slowest stream. It is of the last minutes, so it is not known when no batch came in these.
    latency: (name) => (batch?.age_seconds < RECENT_SECONDS ? most(latency.map((each) => each[name])) : null),
  };
}
