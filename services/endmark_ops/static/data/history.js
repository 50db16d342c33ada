// The batches on screen, oldest first.

import { sumOf } from "./samples.js";

export const LIMIT = 600;
const RATE_BATCHES = 10;
const GAP_SECONDS = 10;
const GAP_INTERVALS = 5;

export class History {
  constructor() {
    this.batches = [];
  }

  get last() {
    return this.batches.at(-1) ?? null;
  }

  get lastId() {
    return this.last ? this.last.batch_id : -1;
  }

  /** Batches with ids above `after`, in place of those there are. */
  add(batches, after = this.lastId) {
    const before = this.batches.filter(({ batch_id: id }) => id <= after);
    this.batches = [...before, ...batches];
    this.batches.splice(0, this.batches.length - LIMIT);
  }

  /** Forget everything when the job went back: to an earlier batch, or to this one again. */
  follow(newest) {
    const last = this.last;
    const wentBack = newest === null || newest.batch_id < this.lastId;
    const replayed = newest?.batch_id === this.lastId && newest.committed_at !== last?.committed_at;
    if (last && (wentBack || replayed)) this.batches = [];
  }

  /** Seconds from the batch before to batch `i`; null at the first one on screen and across a restart. */
  interval(i) {
    const batch = this.batches[i];
    const before = this.batches[i - 1];
    return before?.run_id === batch.run_id ? batch.committed_at - before.committed_at : null;
  }

  /** By batch, whether a gap is before it: no job ran, or no batch came for far longer than usual. */
  gaps() {
    const { batches } = this;
    const between = batches.map(({ committed_at: at }, i) => (i ? at - batches[i - 1].committed_at : 0));
    const usual = between.slice(1).sort((a, b) => a - b)[Math.floor((batches.length - 1) / 2)] ?? 0;
    const most = Math.max(GAP_SECONDS, GAP_INTERVALS * usual);
    return between.map((seconds, i) => i > 0 && (seconds > most || this.interval(i) === null));
  }

  /** Rate of a counter per second over the last batches; falls towards 0 while no more of them come. */
  rate(metric, now) {
    let count = 0;
    let seconds = 0;
    let used = 0;
    for (let i = Math.max(0, this.batches.length - RATE_BATCHES); i < this.batches.length; i += 1) {
      const interval = this.interval(i);
      if (interval === null) continue;
      count += sumOf(this.batches[i].samples, metric) ?? 0;
      seconds += interval;
      used += 1;
    }
    if (seconds <= 0) return null;
    const silence = now - this.last.committed_at - (2 * seconds) / used;
    return count / (seconds + Math.max(0, silence));
  }
}
