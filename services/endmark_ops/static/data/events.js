// The sidecar's events, read by fetch, since an EventSource sends no token.

import { ApiError, OWN, headersWithToken, problemOf } from "./api.js";

const FIRST_MS = 5000;
const SILENCE_MS = 40000; // the sidecar breaks its own after 15 s

/** Events as {name, data}, until the stream ends; `signal` ends it from here. */
export async function* listen(signal) {
  const silence = new AbortController();
  let timer = null;
  const bear = (milliseconds) => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), milliseconds);
  };
  try {
    bear(FIRST_MS);
    const options = { headers: headersWithToken(), signal: AbortSignal.any([signal, silence.signal]) };
    const response = await fetch(`${OWN}/events`, options);
    if (!response.ok) throw await problemOf(response);
    for await (const block of blocksOf(response.body, () => bear(SILENCE_MS))) {
      const event = eventOf(block);
      if (event.data) yield { name: event.event, data: JSON.parse(event.data) };
    }
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError("The sidecar sends no events", error.message);
  } finally {
    clearTimeout(timer);
  }
}

/** The texts between empty lines. */
async function* blocksOf(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      heard();
      const blocks = (text + read.value).split("\n\n");
      text = blocks.pop();
      yield* blocks;
    }
  } finally {
    reader.cancel().catch(() => {}); // it may be broken already
  }
}

/** Its fields by name; comments have none. */
function eventOf(block) {
  const fields = block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line]);
  return Object.fromEntries(fields.map(([name, line]) => [name, line.slice(name.length + 1).trimStart()]));
}
