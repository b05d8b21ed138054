// The operations: rules that the npm package offers, and the steps of scenarios.
import * as tidings from "../../../node/dist/index.mjs";
import { Outboxes } from "./fan-out.mjs";
import { Outlet } from "./outlet.mjs";

const { ConfigError, DecryptionKeys, Gap, Hub, TidingsError, Webhook, WebhookError } = tidings;

const bytes = (value) => (typeof value === "string" ? Buffer.from(value) : Buffer.from(value.hex, "hex"));
const orNull = (value) => value ?? null;

export function errorTold(error) {
  const told = { error: error.code };
  if (error instanceof ConfigError) told.faults = error.faults.map(({ path, rule }) => ({ path, rule }));
  return told;
}

const gapTold = (gap) =>
  gap ? { reason: gap.reason, earliestSeq: orNull(gap.earliestSeq), headSeq: orNull(gap.headSeq) } : null;

function eventTold(event) {
  const raw = Buffer.from(event.bytes);
  const text = raw.toString("utf8");
  return [event.seq, event.type, Buffer.from(text, "utf8").equals(raw) ? text : { hex: raw.toString("hex") }];
}

const endedTold = ({ outcome, reason, ours, committed, undelivered }) => ({
  outcome,
  reason: orNull(reason),
  ours,
  committed,
  undelivered: orNull(undelivered),
});

function options(given) {
  const allow = given.allow ?? {};
  const found = {
    allowNetworks: allow.networks,
    allowHosts: allow.hosts,
    allowHttp: allow.http,
    allowPorts: allow.ports,
    headerNames: given.headerNames,
    redact: given.redact,
    requireSecret: given.requireSecret,
    defaultSecret: given.defaultSecret,
    undeliverable: given.undeliverable,
    maxBodyBytes: given.maxBodyBytes,
    retention: given.retention,
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined && value !== null));
}

/** A request id from its JSON text. */
function requestId(json) {
  const id = JSON.parse(json);
  return typeof id === "number" && !Number.isSafeInteger(id) ? BigInt(json) : id;
}

const after = (given) => given.cursor ?? given.after;

/** Headers as pairs that may repeat, in the form that node:http has them. */
function headers(pairs) {
  const found = {};
  for (const [name, value] of pairs) found[name] = name in found ? [].concat(found[name], value) : value;
  return found;
}

/** What lives between the steps of a scenario. */
export class Stage {
  #hub;
  #writers = new Map();
  #tails = new Map();
  #calls = new Map();
  #outlets = new Map();
  #asking = new Map();
  #boxes = new Outboxes();

  find(op) {
    if (op.startsWith("outbox.")) return this.#boxes.find(op.slice("outbox.".length));
    return op.includes(".") ? this[op.replace(".", "_")] : undefined;
  }

  get #open() {
    if (this.#hub === undefined) throw new Error("no hub is open");
    return this.#hub;
  }

  // Rules

  webhook_sign(given) {
    const webhook = new Webhook(...given.secrets);
    const signed = webhook.sign(bytes(given.body), { id: given.id, timestamp: given.timestamp * 1000 });
    return { signature: signed["webhook-signature"] };
  }

  jwe_decrypt(given) {
    return { text: Buffer.from(new DecryptionKeys(...given.keys).decrypt(bytes(given.body))).toString("utf8") };
  }

  webhook_verify(given) {
    const webhook = new Webhook(...given.secrets);
    const limits = given.tolerance === undefined ? {} : { toleranceMs: given.tolerance * 1000 };
    try {
      webhook.verify(bytes(given.body), headers(given.headers), { now: given.now * 1000, ...limits });
    } catch (error) {
      if (error instanceof WebhookError) return { error: error.code };
      throw error;
    }
    return { ok: true };
  }

  async config_check(given) {
    const hub = new Hub("memory:", options(given));
    try {
      const call = await hub.beginCall({
        config: bytes(given.config),
        routeTypes: given.routeTypes,
        principal: "anyone",
        peer: "calling",
        open: given.open ?? [],
        requestId: 1,
        tool: "tool",
      });
      return { accepted: call.acceptedRoutes, ignored: call.ignoredTriggers };
    } catch (error) {
      if (error instanceof ConfigError) return { faults: errorTold(error).faults, total: error.total };
      throw error;
    } finally {
      await hub.close();
    }
  }

  error_code(given) {
    for (const Kind of Object.values(tidings)) {
      if (!(Kind?.prototype instanceof TidingsError) || Kind === WebhookError) continue;
      const error = Kind === ConfigError ? new Kind("", { faults: [], total: 0 }) : new Kind("");
      if (error.code === given.code) return { retryable: error.retryable };
    }
    throw new Error(`no error has the code ${given.code}`);
  }

  // Scenarios

  async stage_reset() {
    this.#tails.clear();
    this.#writers.clear();
    this.#calls.clear();
    this.#outlets.clear();
    this.#asking.clear();
    this.#boxes = new Outboxes();
    const hub = this.#hub;
    this.#hub = undefined;
    await hub?.close(10_000);
    return {};
  }

  hub_open(given) {
    const hub = new Hub(given.url, options(given.options ?? {}));
    hub.open();
    this.#hub = hub;
    return {};
  }

  async hub_close() {
    return { complete: await this.#open.close(10_000) };
  }

  hub_stats() {
    const { events, lost, refused, failing } = this.#open.stats();
    return { events, lost, refused, failing };
  }

  hub_new_writer(given) {
    this.#writers.set(given.as, this.#open.newWriter(given.scope, given.name));
    return {};
  }

  hub_resume(given) {
    return this.#keep(given, this.#open.resume(given.scope, given.cursor));
  }

  hub_deliveries(given) {
    const asked = {};
    if (given.call !== undefined) asked.callId = this.#calls.get(given.call).id;
    if (given.state !== undefined) asked.state = given.state;
    if (given.principal !== undefined) asked.principal = given.principal;
    const deliveries = this.#open.deliveries(asked).map(({ route, trigger, state, attempts, lastError, eventId }) => ({
      route,
      trigger,
      state,
      attempts,
      lastError: orNull(lastError),
      eventId,
    }));
    return { deliveries };
  }

  hub_outbox(given) {
    this.#boxes.add(given.as, this.#open.outbox());
    return {};
  }

  hub_notify(given) {
    const { kinds, uri, audience } = given;
    // A URI is a change of its own kind; scenarios name either.
    const { told, skipped, failed } = this.#open.notify(uri === undefined ? kinds : { uri }, { audience });
    return { told, skipped, failed };
  }

  hub_failed_sinks() {
    return { sinks: this.#open.failedSinks().map((failed) => this.#boxes.nameOfSink(failed)) };
  }

  hub_outlet(given) {
    this.#outlets.set(given.as, new Outlet(this.#open, given.type, given.name));
    return {};
  }

  outlet_next(given) {
    return this.#outlets.get(given.outlet).next(given.answer);
  }

  #stream(given) {
    return this.#open.stream(given.scope, given.name);
  }

  async stream_append(given) {
    const { payloads, type, close, key } = given;
    return { first: await this.#stream(given).append(payloads, { type, close, key }) };
  }

  async stream_close(given) {
    await this.#stream(given).close();
    return {};
  }

  async stream_claim(given) {
    this.#writers.set(given.as, await this.#stream(given).claim());
    return {};
  }

  async stream_read(given) {
    const page = await this.#stream(given).read(after(given));
    return {
      events: page.events.map(eventTold),
      gap: gapTold(page.gap),
      cursor: page.cursor,
      headSeq: orNull(page.headSeq),
      ended: page.ended,
    };
  }

  stream_tail(given) {
    return this.#keep(given, this.#stream(given).tail(after(given)));
  }

  #keep(given, tail) {
    this.#tails.set(given.as, { tail, ahead: [] });
    return {};
  }

  async tail_next(given) {
    const { tail, ahead } = this.#tails.get(given.tail);
    let ended = false;
    while (ahead.length < given.count && !ended) {
      const item = await tail.next();
      if (item === undefined) ended = true;
      else ahead.push(item instanceof Gap ? { gap: gapTold(item) } : eventTold(item));
    }
    return { items: ahead.splice(0, given.count), ended };
  }

  writer_append(given) {
    return { cursor: this.#writers.get(given.writer).append(given.payload, { type: given.type ?? "message" }) };
  }

  writer_cursor(given) {
    return { cursor: this.#writers.get(given.writer).cursor() };
  }

  async writer_flush(given) {
    await this.#writers.get(given.writer).flush(given.durability ?? "process");
    return {};
  }

  writer_close(given) {
    this.#writers.get(given.writer).close();
    return {};
  }

  async call_begin(given) {
    const call = await this.#open.beginCall({
      config: given.config === undefined ? undefined : bytes(given.config),
      routeTypes: given.routeTypes ?? ["webhook"],
      principal: given.principal ?? "anyone",
      peer: "calling",
      open: given.open ?? [],
      requestId: requestId(given.requestId ?? "1"),
      tool: given.tool ?? "tool",
      timeoutMs: given.timeoutMs,
      taskTtlMs: given.taskTtlMs,
    });
    this.#calls.set(given.as, call);
    return {
      callId: call.id,
      acknowledgement: call.acknowledgement(),
      accepted: call.acceptedRoutes,
      ignored: call.ignoredTriggers,
    };
  }

  call_fire(given) {
    return { seq: this.#calls.get(given.call).fire(given.name, given.payload) };
  }

  call_emit(given) {
    return { seq: this.#calls.get(given.call).emit(given.type, given.payload) };
  }

  call_disconnected(given) {
    this.#calls.get(given.call).disconnected();
    return {};
  }

  async call_complete(given) {
    return endedTold(await this.#calls.get(given.call).complete(bytes(given.result)));
  }

  async call_fail(given) {
    return endedTold(await this.#calls.get(given.call).fail({ error: given.error, reason: given.reason }));
  }

  async call_cancel(given) {
    return endedTold(await this.#calls.get(given.call).cancel(given.reason));
  }

  async call_ended(given) {
    return endedTold(await this.#calls.get(given.call).ended());
  }

  // Tasks

  call_ask(given) {
    const asking = this.#calls.get(given.call).ask(bytes(given.requests));
    asking.catch(() => {}); // told when the scenario asks
    this.#asking.set(given.as, asking);
    return {};
  }

  async ask_answers(given) {
    return { answers: await this.#asking.get(given.ask) };
  }

  hub_task(given) {
    return { task: orNull(this.#open.task(given.id, { principal: given.principal ?? "anyone" })?.json) };
  }

  async hub_answer_task(given) {
    const asker = { principal: given.principal ?? "anyone" };
    return { found: await this.#open.answerTask(given.id, given.responses, asker) };
  }

  async hub_cancel_task(given) {
    return { found: await this.#open.cancelTask(given.id, { principal: given.principal ?? "anyone" }) };
  }
}
