// The header, the problem banner and the empty state.

import { byId, element, setChildren, setText } from "../dom.js";
import { NONE, ago, duration } from "../format.js";

const EMPTY = {
  waiting: "No run of this pipeline has started yet. Start the job and leave this view open.",
  starting: "Spark is starting, which takes some seconds. Charts appear with the first batch.",
  running: "The job runs and reads its first records. Charts appear with the first batch.",
  stale: "The job runs but has committed nothing yet. Its log says what it waits for.",
  lost: "The job gave no sign of life before its first batch. It was killed, or its machine is gone.",
  done: "The last run has read all that there was, which made no batch.",
  stopped: "The last run stopped before its first batch.",
  failed: "The last run failed before its first batch.",
};

export function showHeader(status) {
  setText(byId("pipeline"), status.pipeline);
  document.title = `${status.pipeline}: ${status.state} \u00b7 endmark`;
  showState(status.state);
  const { run, last_batch: batch } = status;
  setText(byId("uptime-name"), run?.stopped_at ? "Ran for" : "Uptime");
  setText(byId("uptime"), run ? duration(run.uptime_seconds) : NONE);
  setText(byId("batch"), batch ? `#${batch.batch_id}` : NONE);
  setText(byId("age"), batch ? ago(batch.age_seconds) : NONE);
  setText(byId("empty-text"), EMPTY[status.state]);
}

/** One sentence a stream: what holds its progress back, with a link to the view of its partitions. */
export function showProgress({ progress }) {
  setChildren(
    byId("progress"),
    progress.map(({ sentence }) =>
      element("li", { children: [element("a", { text: sentence, attributes: { href: "#ledger" } })] }),
    ),
  );
}

export function showState(state) {
  const node = byId("state");
  setText(node, state);
  node.dataset.state = state;
}

/** Say what is wrong with the pipeline, or nothing. */
export function showPipelineProblem({ state, run, stale_seconds: limit }) {
  if (state === "failed") {
    showProblem("The run failed", run.error ?? "It left no error text; the job's log has the cause.");
  } else if (state === "lost") {
    showProblem(
      "The job is gone",
      "It has not told of an end, but gives no sign of life. It was killed, its machine is gone, or it does not " +
        "reach the ops database. Start it again from its checkpoint.",
    );
  } else if (state === "stale") {
    // A fixed text: a running clock in an alert would be read out every second.
    showProblem(
      `No batch for more than ${duration(limit)}`,
      "The job is there. Either a batch hangs, or its topics are silent.",
    );
  } else {
    byId("problem").hidden = true;
  }
}

export function showProblem(title, text) {
  setText(byId("problem-title"), title);
  setText(byId("problem-text"), text);
  byId("problem").hidden = false;
}
