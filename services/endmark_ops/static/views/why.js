// Why a key is open: a question to the running job, which answers from its state.

import { ApiError, askWhy } from "../data/api.js";
import { byId, element, field, setText } from "../dom.js";

function verdictOf({ open, final }) {
  if (final) return "final";
  return open ? "open" : "unknown";
}

/** The answer of one step: the verdict, its reason, and what each stream has of the key. */
function blockOf({ step, sentences: [reason, ...streams], ...fate }) {
  const title = `${step}: ${verdictOf(fate)}`;
  return element("section", {
    className: "block card",
    attributes: { "aria-label": title },
    children: [
      element("h3", { text: title }),
      element("p", { text: reason }),
      element("ul", { className: "facts-of-streams", children: streams.map((text) => element("li", { text })) }),
    ],
  });
}

/** A form for one key, with a field for each of its columns. */
class Question {
  constructor(kinds) {
    const names = Object.keys(kinds);
    this.inputs = names.map((name) => [
      name,
      element("input", { attributes: { required: "", autocomplete: "off", spellcheck: "false" } }),
    ]);
    this.ask = element("button", { text: "Ask", attributes: { type: "submit" } });
    this.said = element("p", { className: "note", attributes: { role: "status" } });
    this.answers = element("div", {});
    const form = element("form", {
      className: "buttons",
      children: [...this.inputs.map(([name, input]) => field(`${name}, ${kinds[name]}`, input)), this.ask],
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    const title = `Key ${names.join(", ")}`;
    this.node = element("section", {
      className: "block",
      attributes: { "aria-label": title },
      children: [element("h3", { text: title }), form, this.said, this.answers],
    });
  }

  async send() {
    const key = Object.fromEntries(this.inputs.map(([name, { value }]) => [name, value]));
    this.ask.disabled = true;
    this.answers.replaceChildren();
    setText(this.said, "Asked. The job answers when its next batch is over.");
    try {
      const { batch_id: batch, answers } = await askWhy(key);
      this.answers.replaceChildren(...answers.map(blockOf));
      const asked = Object.entries(key).map(([name, value]) => `${name}=${value}`);
      setText(this.said, `${asked.join(", ")}, at the end of batch #${batch}:`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setText(this.said, `${error.title}: ${error.message}`);
    } finally {
      this.ask.disabled = false;
    }
  }
}

/** Returns what shows a form for each key that the job may be asked for; it stays while the keys do. */
export function createWhy() {
  let shown = "";
  return ({ pipeline }) => {
    const keys = pipeline?.keys ?? [];
    byId("why-none").hidden = keys.length > 0;
    const signature = JSON.stringify(keys);
    if (signature === shown) return;
    shown = signature;
    byId("why-questions").replaceChildren(...keys.map((kinds) => new Question(kinds).node));
  };
}
