// The sidecar's JSON API.

const TIMEOUT_MS = 8000;

/** A failed request; `title` is for people, `message` says why. */
export class ApiError extends Error {
  constructor(title, message) {
    super(message);
    this.title = title;
  }
}

async function get(path) {
  let response;
  try {
    response = await fetch(path, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch (error) {
    throw new ApiError("The sidecar does not answer", `${error.message}. The figures below are the last known ones.`);
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new ApiError("The sidecar has no current figures", body.detail ?? `HTTP status ${response.status}`);
  }
  return body;
}

export const fetchStatus = () => get("api/status");

/** Batches with an id above `after`, oldest first. */
export const fetchBatches = async (after, limit) =>
  (await get(`api/batches?after=${after}&limit=${limit}`)).batches;
