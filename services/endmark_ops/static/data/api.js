// The sidecar's JSON API.

import { askForToken, token } from "./token.js";

const TIMEOUT_MS = 8000;
const ANSWER_MS = 30_000; // the sidecar waits 20 s for the batch that answers a question
const STORE_MS = 45_000; // the sidecar gives up an object store after 30 s, and says so

/** The path of the sidecar from here; a pipeline's views are two folders down. */
const ROOT = document.documentElement.dataset.root;

/** The pipeline of the views, by their address; empty in the list of pipelines. */
export const PIPELINE = ROOT === "" ? "" : decodeURIComponent(location.pathname.split("/").at(-2));

/** The path of the pipeline's answers. */
export const OWN = `${ROOT}api/pipelines/${encodeURIComponent(PIPELINE)}`;

/** A failed request; `title` is for people, `message` says why. */
export class ApiError extends Error {
  constructor(title, message) {
    super(message);
    this.title = title;
  }
}

export const headersWithToken = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

/** What an answer that is none says. */
export async function problemOf(response, title = "The sidecar has no current figures") {
  const { detail } = await response.json().catch(() => ({}));
  return new ApiError(title, explained(detail) ?? `HTTP status ${response.status}`);
}

async function request(path, { timeout = TIMEOUT_MS, ...options } = {}) {
  const sent = token();
  const headers = { ...options.headers, ...headersWithToken() };
  let response;
  try {
    response = await fetch(path, { ...options, headers, signal: AbortSignal.timeout(timeout) });
    if (response.ok) return await response.json();
  } catch (error) {
    throw new ApiError("The sidecar does not answer", `${error.message}. The figures below are the last known ones.`);
  }
  const refused = options.method || [400, 422].includes(response.status);
  const problem = await problemOf(response, refused ? "It was refused" : undefined);
  // Another token may have the right that this one lacks.
  const asks = response.status === 401 || (response.status === 403 && token());
  if (!asks) throw problem;
  if (token() !== sent) return request(path, { timeout, ...options }); // one was given while this was under way
  if (await askForToken(problem.message, options.method)) return request(path, { timeout, ...options });
  throw options.method ? problem : new ApiError(problem.title, `${problem.message}. Reload this page to be asked again.`);
}

const explained = (detail) => (Array.isArray(detail) ? detail.map(({ msg }) => msg).join("; ") : detail);

const send = (method, path, body, timeout) =>
  request(path, { method, body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, timeout });

/** One line a pipeline, sorted by name. */
export const fetchPipelines = async () => (await request(`${ROOT}api/pipelines`)).pipelines;

export const fetchStatus = () => request(`${OWN}/status`);

/** Batches with an id above `after`, oldest first. */
export const fetchBatches = async (after, limit) =>
  (await request(`${OWN}/batches?after=${after}&limit=${limit}`)).batches;

/** What the pipeline is made of; null before its job has told. */
export const fetchPipeline = async () => (await request(OWN)).pipeline;

/** What `endmark plan` has predicted of each lookup and of the join, and what was measured of the join since. */
export const fetchForecasts = () => request(`${OWN}/forecasts`);

/** What each lookup would yield by what it costs now; keys with this skew, unless that is null. */
export const fetchWhatIfs = async (exponent) =>
  (await request(`${OWN}/what-ifs${exponent === null ? "" : `?exponent=${exponent}`}`)).what_ifs;

export const fetchKnobs = () => request(`${OWN}/knobs`);
export const setKnob = (name, value) => send("PUT", `${OWN}/knobs/${name}`, { value });
export const revertKnob = (name, to) => send("POST", `${OWN}/knobs/${name}/revert`, { to });

/** What keeps a key open; `key` has the text of each of its columns. */
export const askWhy = (key) => send("POST", `${OWN}/why`, { key }, ANSWER_MS);

/** A page of dead letters that meet `search`, whose empty fields say nothing. */
export function fetchLetters(search) {
  const said = Object.entries(search).filter(([, value]) => value);
  return request(`${OWN}/dead-letters?${new URLSearchParams(said)}`, { timeout: STORE_MS });
}

export const fetchLetter = (at) => request(`${OWN}/dead-letters/${at}`, { timeout: STORE_MS });
export const replayLetter = (at, text) => send("POST", `${OWN}/dead-letters/replay`, { at, text }, STORE_MS);
