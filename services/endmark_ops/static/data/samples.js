// Samples are keyed `name{label=value,...}`, as the job's catalogue of metrics writes them.

const parsed = new Map();

/** {name, labels} of a sample's key; labels are pairs in the key's order. */
export function parse(key) {
  let found = parsed.get(key);
  if (!found) {
    const brace = key.indexOf("{");
    const name = brace < 0 ? key : key.slice(0, brace);
    const inner = brace < 0 ? "" : key.slice(brace + 1, -1);
    const labels = inner ? inner.split(",").map((pair) => pair.split("=")) : [];
    found = { name, labels };
    parsed.set(key, found);
  }
  return found;
}

/** Keys of one metric in some batches, sorted. */
export function keysOf(batches, metric) {
  const keys = new Set();
  for (const { totals } of batches) {
    for (const key in totals) if (parse(key).name === metric) keys.add(key);
  }
  return [...keys].sort();
}

/** Sum of a metric over its series, or the one series that is named with labels; null where there is none. */
export function sumOf(samples, metric) {
  if (metric.includes("{")) return samples[metric] ?? null;
  let sum = null;
  for (const key in samples) if (parse(key).name === metric) sum = (sum ?? 0) + samples[key];
  return sum;
}
