// The caller's token: asked for when it is needed, and kept for this tab alone.

import { byId, setText } from "../dom.js";

const KEY = "endmark-token";
let asking = null;
let declined = false;

export const token = () => sessionStorage.getItem(KEY);

/** Hide the links that need a token once there is one, since a browser that follows a link sends none. */
function hideLinks() {
  for (const link of document.querySelectorAll("a.reads")) link.hidden = token() !== null;
}

hideLinks();

/**
 * Ask for a token, unless that is being done; true once there is a new one, false if there will be none. The page reads
 * every second. So whoever has declined is asked again only for what a person does, which `isWanted` says.
 */
export async function askForToken(why, isWanted) {
  if (declined && !isWanted) return false;
  asking ??= ask(why).finally(() => {
    asking = null;
  });
  declined = !(await asking);
  return !declined;
}

function ask(why) {
  const dialog = byId("token");
  const text = byId("token-text");
  setText(byId("token-why"), why);
  text.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    let given = false;
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, text.value.trim());
      hideLinks();
      given = true;
      dialog.close();
    };
    byId("token-cancel").onclick = () => dialog.close();
    dialog.onclose = () => resolve(given);
  });
}
