// What the charts show. A source turns one metric into lines: `rate` and `value` per batch, `total` since the
// first batch, `ratio` to another metric. Panels that are `live` are in the first view. `sum` adds up its series, `by` those with one value of a label; else
// there is one line per series.

export const PANELS = [
  {
    title: "Throughput",
    live: true,
    note: "Records read by stream, and results put out",
    wide: true,
    axis: "per second",
    sources: [
      { metric: "records_total", as: "rate", unit: "records/s" },
      { metric: "join_results_total", as: "rate", unit: "results/s", name: "results", sum: true },
    ],
  },
  {
    title: "Batch time",
    live: true,
    note: "Wall clock by phase, stacked, under the total",
    wide: true,
    axis: "seconds",
    stack: true,
    sources: [{ metric: "batch_seconds", as: "value", unit: "seconds" }],
  },
  {
    title: "Latency",
    note: "From Kafka\u2019s timestamp of a record to the commit of its batch: half of a stream\u2019s records, and 99 %",
    wide: true,
    axis: "seconds",
    sources: [{ metric: "batch_latency_seconds", as: "value", unit: "seconds" }],
  },
  {
    title: "Task time",
    note: "What Python spent in tasks, by phase, stacked",
    wide: true,
    axis: "seconds",
    stack: true,
    sources: [{ metric: "profile_seconds_total", as: "value", unit: "seconds" }],
  },
  {
    title: "Live state rows",
    live: true,
    note: "Rows the operators hold, by stream",
    axis: "rows",
    whole: true,
    sources: [{ metric: "state_rows", as: "value", unit: "rows" }],
  },
  {
    title: "State size",
    wide: true,
    note: "Bytes of state, dead rows included",
    axis: "bytes",
    whole: true,
    sources: [{ metric: "state_bytes", as: "value", unit: "bytes" }],
  },
  {
    title: "Purged, invalidated, dropped",
    wide: true,
    note: "Rows that left state, or never entered it",
    axis: "rows/s",
    sources: [
      { metric: "join_purged_rows_total", as: "rate", unit: "rows/s", name: "purged", sum: true },
      { metric: "join_invalidated_rows_total", as: "rate", unit: "rows/s", name: "invalidated", sum: true },
      { metric: "join_dropped_rows_total", as: "rate", unit: "rows/s", name: "dropped", sum: true },
    ],
  },
  {
    title: "Lookup reads",
    wide: true,
    note: "Pages and lists of keys read, and stream rows that each one served",
    axis: "reads/s",
    rightAxis: "rows/read",
    sources: [
      { metric: "lookup_reads_total", as: "rate", unit: "reads/s", name: "by", by: "by" },
      {
        metric: "lookup_rows_total",
        as: "ratio",
        per: "lookup_reads_total",
        unit: "rows/read",
        name: "rows per read",
        right: true,
      },
    ],
  },
  {
    title: "Rows that wait for a lookup",
    live: true,
    note: "Stream rows that no read has answered, and those held back behind them",
    axis: "rows",
    whole: true,
    sources: [
      { metric: "lookup_pending_rows", as: "value", unit: "rows", name: "not answered", sum: true },
      { metric: "lookup_held_rows", as: "value", unit: "rows", name: "held back", sum: true },
    ],
  },
  {
    title: "Dead letters and violations",
    live: true,
    note: "All so far, by reason of a dead letter or violation",
    axis: "records",
    whole: true,
    sources: [
      { metric: "dead_letters_total", as: "total", unit: "records", by: "reason" },
      { metric: "violations_total", as: "total", unit: "rows", name: "violation", by: "reason" },
    ],
  },
  {
    title: "Punctuations",
    wide: true,
    note: "Pending ones, and keys remembered as closed",
    axis: "punctuations",
    rightAxis: "keys",
    whole: true,
    sources: [
      { metric: "pending_punctuations", as: "value", unit: "punctuations", name: "pending", sum: true },
      { metric: "closed_keys", as: "value", unit: "keys", name: "closed", sum: true, right: true },
    ],
  },
];
