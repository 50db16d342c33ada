// Knobs: what they are, turning them, and who turned what.

import { ApiError, fetchKnobs, revertKnob, setKnob } from "../data/api.js";
import { button, byId, element, setText, table } from "../dom.js";
import { momentOf } from "../format.js";

const shown = (value) => (value === null ? "not set" : String(value));

/** The value as the pipeline file spells it: numbers and null as JSON has them, anything else as text. */
function spelled(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function inputOf(knob) {
  if (knob.kind === "choice") {
    const options = knob.choices.map((text) => element("option", { text, attributes: { value: text } }));
    const select = element("select", { children: options });
    select.value = knob.value;
    return select;
  }
  const input = element("input", { attributes: { type: "text", autocomplete: "off" } });
  input.value = knob.value === null ? "null" : String(knob.value);
  return input;
}

/** A name that breaks behind its dots where it is wider than the card. */
const codeOf = (name) =>
  element("code", { children: name.split(/(?<=\.)/).flatMap((part) => [part, element("wbr", {})]) });

class KnobCard {
  constructor(knob, onSent) {
    const { name } = knob;
    this.value = element("strong", {});
    this.said = element("p", { className: "note", attributes: { role: "status" } });
    this.input = inputOf(knob);
    const unit = knob.kind === "duration" ? "; a number is seconds" : "";
    const label = element("label", { text: "New value ", children: [this.input] });
    const form = element("form", {
      className: "buttons",
      children: [
        label,
        element("button", { text: "Turn", attributes: { type: "submit" } }),
        button("Undo the last turn", () => this.send(() => revertKnob(name, "before"), onSent)),
        button("As in the file", () => this.send(() => revertKnob(name, "file"), onSent)),
      ],
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = knob.kind === "choice" ? this.input.value : spelled(this.input.value);
      this.send(() => setKnob(name, value), onSent);
    });
    this.file = element("span", { className: "note" });
    this.node = element("section", {
      className: "block card",
      attributes: { "aria-label": name },
      children: [
        element("h3", { children: [codeOf(name)] }),
        element("p", { text: knob.effect }),
        element("p", { className: "note", text: `Values: ${knob.values}${unit}` }),
        element("p", { children: ["It is ", this.value, ". ", this.file] }),
        form,
        this.said,
      ],
    });
  }

  async send(request, onSent) {
    try {
      const { offset, by } = await request();
      this.offset = offset;
      setText(this.said, `Sent by ${by} as record ${offset}; the job has not read it yet`);
      await onSent();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setText(this.said, `${error.title}: ${error.message}`);
    }
  }

  update(knob, history) {
    setText(this.value, shown(knob.value));
    setText(this.file, `In the file: ${shown(knob.filed)}; without it: ${shown(knob.default)}; ${knob.applies}`);
    const read = history.find(({ offset }) => offset === this.offset);
    if (read?.refused) setText(this.said, `Refused: ${read.refused}`);
    else if (read) setText(this.said, `Read by batch ${read.batch_id}; it holds from batch ${read.batch_id + 1} on`);
  }
}

const rowOf = (turn) => [
  momentOf(turn.set_at),
  turn.by,
  turn.name,
  shown(turn.before),
  shown(turn.value),
  turn.refused ? `refused: ${turn.refused}` : `batch ${turn.batch_id}`,
  turn.why ?? "",
];

/** What another value of each field of the file takes; closed until somebody wants to know. */
function fieldsOf(fields) {
  const rows = fields.map(({ name, change, remark }) => [name, change, remark]);
  const advice = new Map(fields.map(({ change, advice }) => [change, advice]));
  const said = [...advice].map(([change, text]) => element("p", { className: "note", text: `${change}: ${text}.` }));
  return element("details", {
    className: "block",
    children: [
      element("summary", { text: "What another value of any field takes" }),
      ...said,
      table("Fields of the pipeline file", ["Field", "Takes", ""], rows),
    ],
  });
}

/** Returns what brings the view up to date. */
export function createKnobs() {
  const cards = new Map();
  const list = element("div", { className: "columns" });
  const past = element("div", { className: "block" });
  const file = element("div", {});
  byId("knobs-body").append(list, past, file);
  let last = "";
  const update = async () => {
    const { knobs, fields, history } = await fetchKnobs();
    const names = knobs.map(({ name }) => name);
    if (names.join() !== [...cards.keys()].join()) {
      cards.clear();
      for (const knob of knobs) cards.set(knob.name, new KnobCard(knob, update));
      list.replaceChildren(...[...cards.values()].map(({ node }) => node));
      file.replaceChildren(fieldsOf(fields));
    }
    for (const knob of knobs) cards.get(knob.name).update(knob, history);
    const signature = JSON.stringify(history);
    if (signature === last) return;
    last = signature;
    const heading = element("h3", { text: "Turned so far" });
    const headings = ["When", "Who", "Knob", "From", "To", "Read by", "Why"];
    const none = element("p", { className: "note", text: "Nobody has turned a knob yet." });
    const turns = history.length ? table("Turned so far", headings, history.map(rowOf)) : none;
    past.replaceChildren(heading, turns);
  };
  return update;
}
