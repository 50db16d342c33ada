// Keeps up with the job: by the sidecar's events, or by asking once a second while there are none.

import { ApiError } from "./api.js";
import { byId, setText } from "../dom.js";
import { listen } from "./events.js";

const ASK_MS = 1000;
const LISTEN_EVERY = 10; // times that it asks

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Until the stream ends, which is true if the sidecar meant it to. */
async function listenTo(hear) {
  const leaving = new AbortController();
  const leave = () => document.hidden && leaving.abort();
  document.addEventListener("visibilitychange", leave);
  try {
    for await (const event of listen(leaving.signal)) {
      await hear(event);
      setText(byId("updates"), "as they come");
    }
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return false;
  } finally {
    document.removeEventListener("visibilitychange", leave);
  }
}

/**
 * Never returns. `hear` takes an event, `ask` asks for what is new, `lose` says why that failed. A tab that is not
 * seen asks, since browsers let few streams be open at once.
 */
export async function keepUp({ hear, ask, lose }) {
  for (let asked = 0; ; asked += 1) {
    while (asked % LISTEN_EVERY === 0 && !document.hidden && (await listenTo(hear))) await pause(ASK_MS);
    setText(byId("updates"), "every second");
    await ask().catch(lose);
    await pause(ASK_MS);
  }
}
