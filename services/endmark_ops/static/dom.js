// Building and changing elements. Text goes in as text only.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** A new element with a class, a text, attributes or child elements. */
export function element(tag, { className = "", text = null, attributes = {}, children = [] } = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== null) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A new element of a picture. */
export function svg(tag, attributes, text = null) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  return node;
}

/** Change a text only when it differs, which keeps selections and screen readers undisturbed. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Show these in a node; what is there becomes them piece by piece, so that focus and place are not lost. */
export function setChildren(node, children) {
  while (node.childNodes.length > children.length) node.lastChild.remove();
  children.forEach((child, i) => {
    const there = node.childNodes[i];
    if (there === undefined) node.append(child);
    else if (there.nodeName !== child.nodeName) there.replaceWith(child);
    else become(there, child);
  });
}

function become(node, other) {
  if (node.nodeType === Node.TEXT_NODE) return setText(node, other.textContent);
  for (const name of node.getAttributeNames()) if (!other.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of other.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  setChildren(node, [...other.childNodes]);
}

/** A list of texts; items that stay are left alone. */
export function setItems(list, texts) {
  while (list.children.length > texts.length) list.lastChild.remove();
  while (list.children.length < texts.length) list.append(element("li", {}));
  texts.forEach((text, i) => setText(list.children[i], text));
}

/** A button that does something. */
export function button(text, onClick) {
  const node = element("button", { text, attributes: { type: "button" } });
  node.addEventListener("click", onClick);
  return node;
}

/** An input with its label. */
export const field = (label, input) => element("label", { text: `${label} `, children: [input] });

/** A table with a caption for screen readers; a cell is a text or an element, the first of a row its heading. */
export function table(caption, headings, rows) {
  const head = headings.map((text) => element("th", { text, attributes: { scope: "col" } }));
  const body = rows.map((cells) => element("tr", { children: cells.map(cellOf) }));
  const node = element("table", {
    className: "figures",
    children: [
      element("caption", { className: "unseen", text: caption }),
      element("thead", { children: [element("tr", { children: head })] }),
      element("tbody", { children: body }),
    ],
  });
  const attributes = { role: "region", "aria-label": caption, tabindex: "0" };
  return element("div", { className: "table-frame", attributes, children: [node] });
}

function cellOf(content, i) {
  const cell = element(i === 0 ? "th" : "td", i === 0 ? { attributes: { scope: "row" } } : {});
  cell.append(content);
  return cell;
}
