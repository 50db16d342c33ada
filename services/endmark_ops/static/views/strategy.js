// The strategy of a lookup that is in force, and what `auto` would choose by the same costs.

import { element } from "../dom.js";
import { written } from "../format.js";

const share = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

/** What one read of a strategy takes and answers, and so yields. */
function yieldOf({ rate, rows_per_read: rows, read_seconds: seconds }) {
  const read = `a read takes ${written(seconds, "seconds")} and answers ${written(rows, "rows")}`;
  return `${read}: ${written(rate, "rows/s")} predicted on one core`;
}

function inForce({ strategy, paper, reads, in_force: own, waiting_rows: waiting }) {
  const named = paper ? `${strategy} (${paper})` : strategy;
  const waited = waiting ? `${written(Math.round(waiting), "rows")} waited on average` : "no row waited";
  const yields = own ? `So ${yieldOf(own)}` : "No paper has equations for it, so nothing is predicted";
  return `In force is ${named}: it reads ${reads}. In the last batches ${waited}. ${yields}.`;
}

function instead({ strategy, in_force: own, auto }) {
  const by = `By what reads cost in the last batches, ${yieldOf(auto)}`;
  if (strategy === "auto") return `It would now choose ${auto.strategy}: ${auto.reads}. ${by}.`;
  if (own && own.strategy === auto.strategy) return "auto would choose the same reads.";
  const times = own ? `, ${share.format(auto.rate / own.rate)} times as many` : "";
  return `auto would choose ${auto.strategy} instead: ${auto.reads}. ${by}${times}.`;
}

/** A block with the strategy in force and the choice of `auto`, for one live what-if. */
export const strategyOf = (whatIf) =>
  element("section", {
    className: "block",
    attributes: { "aria-label": `Strategy of ${whatIf.relation}` },
    children: [
      element("h3", { text: `Strategy of ${whatIf.relation}` }),
      element("p", { text: inForce(whatIf) }),
      element("p", { className: "note", text: instead(whatIf) }),
    ],
  });
