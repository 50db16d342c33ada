// Building and changing elements. Text goes in as text only.

export const byId = (id) => document.getElementById(id);

/** A new element with a class, a text or child elements. */
export function element(tag, { className = "", text = null, children = [] } = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== null) node.textContent = text;
  node.append(...children);
  return node;
}

/** Change a text only when it differs, which keeps selections and screen readers undisturbed. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
