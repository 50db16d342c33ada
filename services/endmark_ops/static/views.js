// The views of the dashboard, one at a time, by the address's fragment.

import { byId } from "./dom.js";

const links = () => [...byId("views").querySelectorAll("a")];
const nameOf = (link) => link.hash.slice(1);

let show = () => {};

/** The view on screen. */
export const shownView = () => {
  const names = links()
    .filter(({ hidden }) => !hidden)
    .map(nameOf);
  const asked = location.hash.slice(1);
  return names.includes(asked) ? asked : names[0];
};

/** Say whether there is anything to see in a view. */
export function offerView(name, isOffered) {
  const link = links().find((each) => nameOf(each) === name);
  if (link.hidden === !isOffered) return;
  link.hidden = !isOffered;
  show();
}

/** Follow the fragment; `onShow` hears of each view that comes on screen. */
export function createViews(onShow) {
  show = () => {
    const shown = shownView();
    for (const link of links()) {
      const name = nameOf(link);
      byId(`view-${name}`).hidden = name !== shown;
      if (name === shown) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    onShow(shown);
  };
  addEventListener("hashchange", show);
  show();
}
