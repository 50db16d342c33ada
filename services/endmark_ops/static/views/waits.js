// What waits for what, in sentences: for the graph, and for whoever wonders why nothing comes out.

import { duration } from "../format.js";
import { sumOf } from "../data/samples.js";

const QUIET_SECONDS = 10;

/** Seconds since a batch had a record of the stream; null if the batches on screen do not go back that far. */
export function silence(stream, history, now) {
  const key = `records_total{stream=${stream}}`;
  const last = history.batches.findLast(({ samples }) => samples[key] > 0);
  return last ? now - last.committed_at : null;
}

/**
 * Streams that have been silent for a while, each with a sentence. What a batch reads is known when it is over, so
 * the time that one takes is none in which nothing came.
 */
export function silentStreams(pipeline, history, now) {
  const unknown = history.last?.samples["batch_seconds{phase=total}"] ?? 0;
  return pipeline.streams.flatMap(({ name }) => {
    const seconds = silence(name, history, now);
    if (!history.last || (seconds !== null && seconds < QUIET_SECONDS + unknown)) return [];
    const since = seconds === null ? "any batch on screen" : duration(seconds);
    const others = pipeline.streams.filter((other) => other.name !== name).map((other) => other.name);
    const stays = others.length ? `: what ${others.join(", ")} keep for it stays` : "";
    return [{ name, sentence: `${name} has sent no record for ${since}${stays}` }];
  });
}

/** Every reason to wait, the most telling first. */
export function reasonsToWait(pipeline, history, status) {
  const found = silentStreams(pipeline, history, status.now).map(({ sentence }) => sentence);
  if (status.state !== "running") found.unshift(`the job is ${status.state}`);
  const totals = history.last?.totals ?? {};
  const pending = sumOf(totals, "lookup_pending_rows") ?? 0;
  if (pending > 0) found.push(`${pending.toLocaleString("en")} rows wait for a lookup`);
  const parked = sumOf(totals, "lookup_parked_rows") ?? 0;
  if (parked > 0) found.push(`${parked.toLocaleString("en")} rows are parked, since a relation has no match yet`);
  return [...found, ...status.progress.map(({ sentence }) => sentence)];
}
