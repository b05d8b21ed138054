// The steps about outboxes: who is told what, counted and handed out.
import { Profile } from "../../../node/dist/index.mjs";

const profile = ({ version, server, client }) => new Profile(version, server, client);
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** Outboxes with their connections and listeners, by the names the scenario gave them. */
export class Outboxes {
  #outboxes = new Map();
  #sinks = new Map();
  #listeners = new Map();

  add(name, outbox) {
    this.#outboxes.set(name, outbox);
  }

  find(op) {
    return Object.hasOwn(STEPS, op) ? (given) => STEPS[op](this, given) : undefined;
  }

  of(given) {
    return this.#outboxes.get(given.outbox);
  }

  sink({ sink }) {
    return this.#sinks.get(sink).number;
  }

  listener({ listener }) {
    return this.#listeners.get(listener).number;
  }

  keepSink(given, number) {
    this.#sinks.set(given.as, { outbox: this.of(given).number, number });
    return {};
  }

  keepListener(given, number) {
    this.#listeners.set(given.as, { outbox: this.of(given).number, number });
    return {};
  }

  #nameIn(named, outbox, number) {
    const [found] = [...named].find(([, one]) => one.outbox === outbox && one.number === number);
    return found;
  }

  nameOfSink({ outbox, sink }) {
    return this.#nameIn(this.#sinks, outbox, sink);
  }

  /** By the names of their connections, between which no order is promised. */
  told(outbox, notices) {
    const told = notices.map(({ sink, listener, method, params }) => [
      this.nameOfSink({ outbox: outbox.number, sink }),
      this.#nameIn(this.#listeners, outbox.number, listener),
      method ?? null,
      params === undefined ? null : JSON.parse(params),
    ]);
    return { notices: told.sort(([a], [b]) => compare(a, b)) };
  }
}

const STEPS = {
  add_sink: (boxes, given) => {
    const { principal, deadlineMs } = given;
    return boxes.keepSink(given, boxes.of(given).addSink({ principal, deadlineMs }));
  },
  attend: (boxes, given) => boxes.keepListener(given, boxes.of(given).attend(boxes.sink(given), profile(given))),
  listen: (boxes, given) => {
    const id = JSON.parse(given.id);
    return boxes.keepListener(given, boxes.of(given).listen(boxes.sink(given), profile(given), id, given.filter));
  },
  open: (boxes, given) => (boxes.of(given).open(boxes.listener(given)), {}),
  subscribe: (boxes, given) => (boxes.of(given).subscribe(boxes.listener(given), profile(given), given.uri), {}),
  unsubscribe: (boxes, given) => (boxes.of(given).unsubscribe(boxes.listener(given), profile(given), given.uri), {}),
  set_reachable: (boxes, given) => (boxes.of(given).setReachable(boxes.sink(given), given.reachable), {}),
  end: (boxes, given) => (boxes.of(given).end(boxes.listener(given)), {}),
  end_all: (boxes, given) => (boxes.of(given).endAll(), {}),
  cancel: (boxes, given) => ({ ended: boxes.of(given).cancel(boxes.listener(given)) }),
  drop_sink: (boxes, given) => ({ listeners: boxes.of(given).dropSink(boxes.sink(given)) }),
  broke: (boxes, given) => ({ listeners: boxes.of(given).broke(boxes.sink(given)) }),
  written: (boxes, given) => ({ alive: boxes.of(given).written(boxes.sink(given), given.count) }),
  take: (boxes, given) => boxes.told(boxes.of(given), boxes.of(given).take()),
  next: async (boxes, given) => {
    const outbox = boxes.of(given);
    const notices = [];
    while (notices.length < given.count) {
      await outbox.ready();
      notices.push(...outbox.take());
    }
    return boxes.told(outbox, notices);
  },
  count: (boxes, given) => ({ listeners: boxes.of(given).listeners }),
};
