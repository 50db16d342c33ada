// The table of totals with what each metric counts.

import { element, setText } from "../dom.js";
import { exact } from "../format.js";

const seriesName = (labels) =>
  Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");

/** The totals that have a text in the metric's name or meaning, or series that have it in their labels. */
function found(totals, text) {
  const has = (said) => said.toLowerCase().includes(text.toLowerCase());
  return totals.flatMap((total) => {
    if (has(total.name) || has(total.help)) return [total];
    const samples = total.samples.filter(({ labels }) => has(seriesName(labels)));
    return samples.length ? [{ ...total, samples }] : [];
  });
}

/** Fills a table body with what is searched for, and returns what brings it up to date. */
export function createTotals(body, search) {
  let signature = null;
  let cells = [];
  let newest = [];
  const show = (all) => {
    newest = all;
    const totals = found(all, search.value.trim());
    const next = totals.map(({ name, samples }) => name + samples.map(({ labels }) => seriesName(labels))).join("\n");
    if (next !== signature) {
      signature = next;
      cells = [];
      body.replaceChildren(...totals.flatMap((total) => rowsOf(total, cells)));
    }
    totals
      .flatMap(({ samples }) => samples)
      .forEach(({ value }, i) => setText(cells[i], exact(value)));
  };
  search.addEventListener("input", () => show(newest));
  return show;
}

function rowsOf({ name, help, unit, samples }, cells) {
  return samples.map(({ labels }, i) => {
    const value = element("td", { className: "value" });
    cells.push(value);
    const series = element("td", { className: "series", text: seriesName(labels) });
    const row = element("tr", { children: [series, value, element("td", { className: "unit", text: unit })] });
    if (i === 0) row.prepend(headingOf(name, help, samples.length));
    return row;
  });
}

function headingOf(name, help, rows) {
  const heading = element("th", {
    children: [element("code", { text: name }), element("p", { children: proseOf(help) })],
  });
  heading.scope = "rowgroup";
  heading.rowSpan = rows;
  return heading;
}

// The catalogue writes names of labels `like this`.
const proseOf = (help) =>
  help.split("`").map((text, i) => (i % 2 ? element("code", { text }) : document.createTextNode(text)));
