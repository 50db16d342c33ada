// Lines of a panel: from the batches on screen to columns of numbers.

import { keysOf, parse, sumOf } from "../data/samples.js";

/**
 * The lines a panel has at present, as {id, label, unit, right, emphasis, values}.
 * `values` has one number or null per batch.
 */
export function linesOf(panel, history) {
  const lines = panel.sources.flatMap((source) => linesOfSource(source, history));
  if (panel.stack) {
    for (const line of lines) line.emphasis = line.label === "total";
    lines.sort((a, b) => a.emphasis - b.emphasis);
  }
  return lines;
}

function linesOfSource(source, history) {
  const { batches } = history;
  const keys = keysOf(batches, source.metric);
  const common = { unit: source.unit, right: Boolean(source.right), emphasis: false };
  if (source.as === "ratio") {
    const values = batches.map(({ samples }) => ratio(sumOf(samples, source.metric), sumOf(samples, source.per)));
    return keys.length ? [{ ...common, id: source.name, label: source.name, values }] : [];
  }
  if (source.sum) {
    const pick = (samples) => sumOf(samples, source.metric);
    return keys.length
      ? [{ ...common, id: source.metric, label: source.name, values: column(source, history, pick) }]
      : [];
  }
  if (source.by) return linesByLabel(source, keys, history, common);
  return keys.map((key) => ({
    ...common,
    id: key,
    label: labelOf(source, parse(key).labels),
    values: column(source, history, (samples) => samples[key]),
  }));
}

function linesByLabel(source, keys, history, common) {
  const labelled = keys.map((key) => [parse(key).labels.find(([name]) => name === source.by), key]);
  const values = [...new Set(labelled.map(([label]) => label?.[1]))];
  return values.map((value) => {
    const mine = labelled.filter(([label]) => label?.[1] === value).map(([, key]) => key);
    const pick = (samples) => mine.reduce((sum, key) => sum + (samples[key] ?? 0), 0);
    return {
      ...common,
      id: `${source.metric}:${value}`,
      label: labelOf(source, value === undefined ? [] : [[source.by, value]]),
      values: column(source, history, pick),
    };
  });
}

function column(source, history, pick) {
  return history.batches.map((batch, i) => {
    if (source.as === "total") return pick(batch.totals) ?? 0;
    if (source.as === "value") return pick(batch.samples) ?? null;
    const seconds = history.interval(i);
    // A counter that a batch does not mention did not move.
    return seconds > 0 ? (pick(batch.samples) ?? 0) / seconds : null;
  });
}

const ratio = (count, per) => (count !== null && per > 0 ? count / per : null);

function labelOf(source, labels) {
  const values = labels.map(([, value]) => value.replaceAll("_", " "));
  return [source.name, ...values].filter(Boolean).join(" \u00b7 ") || source.metric;
}
