// Dead letters: searching them, looking into one, and sending it once more, mended or as it is.

import { ApiError, fetchLetter, fetchLetters, replayLetter } from "../data/api.js";
import { button, byId, element, field, setText, table } from "../dom.js";
import { momentOf } from "../format.js";

const SHOWN_LETTERS = 80;

function payloadOf({ text, base64 }) {
  if (text !== null) return text;
  return base64 === null ? "(no value)" : `(base64) ${base64}`;
}

function fateOf({ replayed }) {
  if (!replayed) return "";
  const to = replayed.to_offset === null ? "is being sent" : `is offset ${replayed.to_offset} now`;
  return `replayed by ${replayed.by} at ${momentOf(replayed.at)}, ${to}`;
}

class Letters {
  constructor(root) {
    this.search = { topic: "", reason: "", text: "", after: "" };
    this.inputs = Object.fromEntries(
      ["topic", "reason", "text"].map((name) => [name, element("input", { attributes: { type: "search" } })]),
    );
    this.said = element("p", { className: "note", attributes: { role: "status" } });
    this.list = element("div", {});
    this.older = button("Older ones", () => this.load({ ...this.search, after: this.next }));
    this.older.hidden = true;
    this.open = element("div", {});
    const submit = element("button", { text: "Search", attributes: { type: "submit" } });
    const { topic, reason, text } = this.inputs;
    const form = element("form", {
      className: "buttons",
      attributes: { role: "search" },
      children: [field("Topic", topic), field("Reason", reason), field("Text in it", text), submit],
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.load({ topic: topic.value, reason: reason.value, text: text.value, after: "" });
    });
    root.append(form, this.said, this.open, this.list, this.older);
  }

  async load(search) {
    this.search = search;
    await this.trying(this.said, async () => {
      const { letters, after } = await fetchLetters(search);
      this.next = after;
      const isLeft = after === null && document.activeElement === this.older;
      this.older.hidden = after === null;
      const rows = letters.map((letter) => [
        button(letter.at, () => this.show(letter.at)),
        letter.reason,
        letter.error,
        payloadOf(letter).slice(0, SHOWN_LETTERS),
        fateOf(letter),
      ]);
      const headings = ["Record", "Reason", "Error", "Value", "Replayed"];
      this.list.replaceChildren(table("Dead letters found", headings, rows));
      if (isLeft) this.list.firstChild.focus(); // the button is hidden, so the next Tab would begin at the top
      setText(this.said, letters.length ? `${letters.length} shown` : "None found");
    });
  }

  async show(at) {
    await this.trying(this.said, async () => {
      const letter = await fetchLetter(at);
      const text = element("textarea", { attributes: { rows: "6", spellcheck: "false" } });
      text.value = payloadOf(letter);
      const shown = text.value; // a text area has other line ends than the letter
      text.readOnly = letter.text === null;
      const said = element("p", { className: "note", text: fateOf(letter), attributes: { role: "status" } });
      const send = button("Replay", () => this.replay(letter, text.value === shown ? null : text.value, said));
      send.disabled = letter.replayed !== null;
      const title = element("h3", { text: `Record ${at}`, attributes: { tabindex: "-1" } });
      this.open.replaceChildren(
        element("section", {
          className: "block",
          attributes: { "aria-label": `Record ${at}` },
          children: [
            title,
            element("p", { text: `${letter.reason}: ${letter.error}` }),
            field("Value, to be mended", text),
            element("div", { className: "buttons", children: [send, button("Close", () => this.close(at))] }),
            said,
          ],
        }),
      );
      title.focus();
    });
  }

  close(at) {
    this.open.replaceChildren();
    // Without this, the next Tab would begin at the top of the page.
    [...this.list.querySelectorAll("button")].find(({ textContent }) => textContent === at)?.focus();
  }

  async replay(letter, text, said) {
    await this.trying(said, async () => {
      await replayLetter(letter.at, text);
      await this.show(letter.at);
      await this.load(this.search);
    });
  }

  async trying(said, action) {
    try {
      await action();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setText(said, `${error.title}: ${error.message}`);
    }
  }
}

/** Returns what shows the newest letters. */
export function createLetters() {
  const letters = new Letters(byId("letters-body"));
  return () => letters.load({ ...letters.search, after: "" });
}
