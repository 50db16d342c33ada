// Polls the sidecar once a second and passes what is new to the parts of the view.

import { ApiError, fetchBatches, fetchPipeline, fetchStatus } from "./api.js";
import { Chart } from "./charts.js";
import { byId, setText } from "./dom.js";
import { duration } from "./format.js";
import { showGraph } from "./graph.js";
import { showHeader, showPipelineProblem, showProblem, showProgress, showState } from "./header.js";
import { History, LIMIT } from "./history.js";
import { createKnobs } from "./knobs.js";
import { showLedger } from "./ledger.js";
import { createLetters } from "./letters.js";
import { showLookup } from "./lookup.js";
import { PANELS } from "./panels.js";
import { createTiles } from "./tiles.js";
import { createTotals } from "./totals.js";
import { createViews, shownView } from "./views.js";

const POLL_MS = 1000;

const history = new History();
const charts = PANELS.map((panel) => new Chart(panel, history));
byId("panels").append(...charts.map(({ node }) => node));
const updateTiles = createTiles(byId("tiles"));
const updateTotals = createTotals(byId("totals"));
const updateKnobs = createKnobs();
const showLetters = createLetters();
const updates = { graph: showGraph, ledger: showLedger, lookup: showLookup, knobs: updateKnobs };
let connected = false;
let pipeline = null;
let latest = null;

function draw(status, changed) {
  showHeader(status);
  showPipelineProblem(status);
  updateTiles(history, status);
  const empty = history.last === null;
  byId("empty").hidden = !empty;
  byId("filled").hidden = empty;
  if (empty || !changed) return;
  const { batches } = history;
  const span = duration(history.last.committed_at - batches[0].committed_at);
  setText(byId("window"), batches.length > 1 ? `The last ${batches.length} batches, ${span}` : "The first batch");
  for (const chart of charts) chart.update();
  showProgress(status);
  updateTotals(status.totals);
}

// The job that started last says what the pipeline is made of.
async function describe(status) {
  if (pipeline === null || status.run?.run_id !== latest?.run?.run_id) pipeline = await fetchPipeline();
}

async function show(view) {
  if (latest !== null) await updates[view]?.({ pipeline, history, status: latest });
}

async function refresh() {
  const status = await fetchStatus();
  await describe(status);
  const before = history.last;
  history.follow(status.last_batch);
  history.add(await fetchBatches(history.lastId, LIMIT));
  connected = true;
  latest = status;
  draw(status, history.last !== before);
  await show(shownView());
}

function tell(error) {
  if (!(error instanceof ApiError)) throw error;
  showState(connected ? "no contact" : "connecting");
  showProblem(error.title, error.message);
}

async function poll() {
  try {
    await refresh();
  } catch (error) {
    tell(error);
  } finally {
    setTimeout(poll, POLL_MS);
  }
}

// Charts are painted with the theme's colours, so another theme means painting them again.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (history.last) for (const chart of charts) chart.rebuild();
});

createViews((view) => {
  if (view === "letters") showLetters();
  show(view).catch(tell);
});

setText(byId("zone"), `Times in ${Intl.DateTimeFormat().resolvedOptions().timeZone}`);
poll();
