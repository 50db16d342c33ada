// Passes what is new to the parts of the view.

import { ApiError, OWN, PIPELINE, fetchBatches, fetchPipeline, fetchPipelines, fetchStatus } from "./data/api.js";
import { Chart } from "./views/charts.js";
import { byId, setText } from "./dom.js";
import { duration } from "./format.js";
import { showGraph } from "./views/graph.js";
import { showHeader, showPipelineProblem, showProblem, showProgress, showState } from "./views/header.js";
import { History, LIMIT } from "./data/history.js";
import { showJoin } from "./views/join.js";
import { keepUp, pause } from "./data/keep_up.js";
import { createKnobs } from "./views/knobs.js";
import { showLedger } from "./views/ledger.js";
import { createLetters } from "./views/letters.js";
import { showLookup } from "./views/lookup.js";
import { PANELS } from "./views/panels.js";
import { showStates } from "./views/states.js";
import { createTiles } from "./views/tiles.js";
import { createTotals } from "./views/totals.js";
import { createViews, offerView, shownView } from "./views.js";
import { createWhy } from "./views/why.js";

const TICK_MS = 1000;
const SHARED_MS = 500;
const AGEING = new Set(["graph", "ledger"]);

const history = new History();
const charts = PANELS.map((panel) => new Chart(panel, history));
for (const chart of charts) byId(chart.panel.live ? "panels" : "more-panels").append(chart.node);
const updateTiles = createTiles(byId("tiles"));
const updateTotals = createTotals(byId("totals"), byId("totals-search"));
const updateKnobs = createKnobs();
const showLetters = createLetters();
const updates = {
  graph: showGraph,
  ledger: showLedger,
  states: showStates,
  why: createWhy(),
  lookup: showLookup,
  join: showJoin,
  knobs: updateKnobs,
};
let upToDate = false;
let pipeline = null;
let latest = null;
let heardAt = 0;

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
  offerView("join", pipeline?.streams.length !== 1);
}

async function show(view) {
  if (latest !== null) await updates[view]?.({ pipeline, history, status: aged() });
}

/** The status as it would be now, if nothing has been told since. */
function aged() {
  const passed = (performance.now() - heardAt) / 1000;
  const { now, run, last_batch: batch } = latest;
  const ran = run?.stopped_at ? 0 : passed;
  return {
    ...latest,
    now: now + passed,
    run: run && { ...run, uptime_seconds: run.uptime_seconds + ran },
    last_batch: batch && { ...batch, age_seconds: batch.age_seconds + passed },
  };
}

/** Bring the view up to date by a status, and by the batches that belong to it. */
async function take(status, addBatches) {
  upToDate = false;
  await describe(status);
  const before = history.last;
  history.follow(status.last_batch);
  await addBatches();
  latest = status;
  heardAt = performance.now();
  upToDate = true;
  draw(status, history.last !== before);
  await show(shownView());
}

const fetchNew = async () => history.add(await fetchBatches(history.lastId, LIMIT));

/** Ask for what was missed up to a batch; an answer that is shared may be too old to have it. */
async function fill(upTo) {
  for (let tries = 0; history.lastId < upTo && tries < 3; tries += 1) {
    if (tries > 0) await pause(SHARED_MS);
    await fetchNew();
  }
}

function hear({ name, data }) {
  if (name === "problem") throw new ApiError("The sidecar has no current figures", data.detail);
  const { after, batches, status } = data;
  return take(status, async () => {
    await fill(after);
    history.add(batches, after);
  });
}

function tell(error) {
  if (!(error instanceof ApiError)) throw error;
  showState(latest ? "no contact" : "connecting");
  showProblem(error.title, error.message);
}

function lose(error) {
  upToDate = false;
  // What waits is not known any more, and old figures would say that all is well.
  if (latest !== null) {
    latest = { ...latest, lag_records: null };
    updateTiles(history, latest);
  }
  tell(error);
}

// Ages grow while nothing is told.
setInterval(() => {
  if (!upToDate) return;
  draw(aged(), false);
  if (AGEING.has(shownView())) show(shownView());
}, TICK_MS);

// Charts are painted with the theme's colours, so another theme means painting them again.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (history.last) for (const chart of charts) chart.rebuild();
});

createViews((view) => {
  if (view === "letters") showLetters();
  show(view).catch(tell);
});

/** Link to the list, if there is another pipeline in it. */
async function offerList() {
  const others = (await fetchPipelines()).length > 1;
  byId("all").hidden = !others;
  byId("only").hidden = others;
}

setText(byId("pipeline"), PIPELINE);
byId("status").href = `${OWN}/status`;
byId("readiness").href += `/${encodeURIComponent(PIPELINE)}`;
offerList().catch(tell);
setText(byId("zone"), `Times in ${Intl.DateTimeFormat().resolvedOptions().timeZone}`);
keepUp({ hear, ask: async () => take(await fetchStatus(), fetchNew), lose });
