// A parser of event streams by the letter of the WHATWG standard (HTML, 9.2.5 and 9.2.6), for bytes that come in any pieces. What
// clients' own parsers got wrong is in the field reports B05, B06 and B09; this one is what senders are tested against.

/** What a client knows of a stream. */
export class EventStream {
  /** As they are dispatched: `{ type, data, lastId }`. */
  events = [];
  /** What a reconnect names; nothing is named when it is empty. */
  lastId = "";
  retry = undefined;
  #decoder = new TextDecoder("utf-8"); // which takes one BOM away, at the very beginning
  #text = "";
  #id = "";
  #type = "";
  #data = [];

  feed(pieces) {
    for (const piece of pieces) {
      this.#text += this.#decoder.decode(piece, { stream: true });
      this.#lines();
    }
    return this;
  }

  #lines() {
    for (;;) {
      const at = this.#text.search(/[\r\n]/);
      // A CR at the very end may be half of a CRLF.
      if (at < 0 || (this.#text[at] === "\r" && at + 1 === this.#text.length)) return;
      const line = this.#text.slice(0, at);
      this.#text = this.#text.slice(this.#text.startsWith("\r\n", at) ? at + 2 : at + 1);
      this.#line(line);
    }
  }

  #line(line) {
    if (line === "") {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#type = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    else if (field === "retry" && /^[0-9]+$/.test(value)) this.retry = Number(value);
  }

  #dispatch() {
    this.lastId = this.#id;
    if (this.#data.length > 0) {
      this.events.push({ type: this.#type || "message", data: this.#data.join("\n"), lastId: this.lastId });
    }
    [this.#type, this.#data] = ["", []];
  }
}
