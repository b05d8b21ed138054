// The tools, prompts and resources of ../fixture.json on the TypeScript SDK; ../README.md says what its members mean.
//
// Results are what goes over the wire.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { InMemoryServerEventBus, ProtocolError } from "./packages.mjs";

export const DATA = JSON.parse(readFileSync(new URL("../fixture.json", import.meta.url), "utf8"));
/** Where the tools that change a list say so. */
export const BUS = new InMemoryServerEventBus();
/** Tools whose every call becomes a task at once, and those that a client without the extension may not call. */
export const TASKS = Object.fromEntries(
  Object.entries(DATA.tools).flatMap(([name, { task }]) => (task === undefined ? [] : [[name, task]])),
);

const INVALID_PARAMS = -32602;
const MISSING_CAPABILITY = -32021;
/** By the method of a question: the capability of a client that can be asked it. */
const ASKED_BY = { "elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots" };
/** Milliseconds between two messages of a tool that sends several. */
const STEP = 50;

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const textsOf = (args) => Object.fromEntries(Object.entries(args).map(([name, value]) => [name, asText(value)]));

/** A part of the fixture, with the texts put in. */
function fill(part, given) {
  if (typeof part === "string") {
    return Object.entries(given).reduce((said, [name, text]) => said.replaceAll(`\${${name}}`, () => text), part);
  }
  if (Array.isArray(part)) return part.map((item) => fill(item, given));
  if (typeof part !== "object" || part === null) return part;
  return Object.fromEntries(Object.entries(part).map(([name, member]) => [name, fill(member, given)]));
}

/** Whether the client declared that with this request. */
const can = (ctx, capability) =>
  ctx.mcpReq.envelope?.["io.modelcontextprotocol/clientCapabilities"]?.[capability] !== undefined;

// -- what is asked by InputRequiredResult

/** The questions of a round; none where there is no such round. */
function questions(ctx, { asks = [], ifDeclared }, number) {
  const all = Object.entries(asks[number] ?? {});
  return Object.fromEntries(all.filter(([, { method }]) => !ifDeclared || can(ctx, ASKED_BY[method])));
}

/** Whether all of them were answered; a form counts when it was filled in. What it says is added to the texts. */
function answered(ctx, asked, given) {
  let all = true;
  for (const [name, { method }] of Object.entries(asked)) {
    const answer = ctx.mcpReq.inputResponses?.[name];
    const form = answer?.content;
    if (method === "elicitation/create") {
      all &&= typeof form === "object" && form !== null;
      for (const [field, value] of Object.entries(form ?? {})) given[`${name}.${field}`] = asText(value);
    } else {
      all &&= answer !== undefined;
    }
  }
  return all;
}

/** What a tool or a prompt has to ask its client now; nothing when it has answered everything. `mint` seals a state for it. */
async function ask(ctx, asking, given, mint) {
  let number = 0;
  const state = asking.sealed ? ctx.mcpReq.requestState() : 0;
  if (state !== undefined) {
    const asked = questions(ctx, asking, Number(state));
    if (Object.keys(asked).length === 0) return undefined;
    number = Number(state) + Number(answered(ctx, asked, given));
  }
  const inputRequests = questions(ctx, asking, number);
  if (Object.keys(inputRequests).length === 0) return undefined;
  const result = { resultType: "input_required", inputRequests };
  return asking.sealed ? { ...result, requestState: await mint(String(number)) } : result;
}

// -- tools, prompts, resources

/** What a tool says to its client, and asks of it while it runs; the answer is added to the texts. */
async function talk(ctx, { logs = [], progress = [], elicits, samples }, given) {
  for (const data of logs) {
    await ctx.mcpReq.log("info", data);
    await sleep(STEP);
  }
  const progressToken = ctx.mcpReq._meta?.progressToken;
  for (const done of progressToken === undefined ? [] : progress) {
    const params = { progressToken, progress: done, total: 100 };
    await ctx.mcpReq.notify({ method: "notifications/progress", params });
    await sleep(STEP);
  }
  if (elicits !== undefined) {
    const { action, content } = await ctx.mcpReq.elicitInput(fill(elicits, given));
    given.answer = `action=${action}, content=${JSON.stringify(content)}`;
  }
  if (samples !== undefined) {
    const answer = await ctx.mcpReq.requestSampling(fill(samples, given));
    given.answer = answer.content.text;
  }
}

/** All that the fixture says of a tool, in its order. */
export async function call(ctx, tool, args, mint) {
  const { needs, changes, cuts, takes = 0, error } = tool;
  if (needs !== undefined && !can(ctx, needs)) {
    throw new ProtocolError(MISSING_CAPABILITY, `This tool needs ${needs}`, { requiredCapabilities: { [needs]: {} } });
  }
  const given = textsOf(args);
  const asked = await ask(ctx, tool, given, mint);
  if (asked !== undefined) return asked;
  await talk(ctx, tool, given);
  if (changes !== undefined) BUS.publish({ kind: `${changes}_list_changed` });
  if (cuts) {
    ctx.http?.closeSSE?.();
    await sleep(STEP);
  }
  await sleep(1_000 * (typeof takes === "string" ? (args[takes] ?? 0) : takes));
  if (error !== undefined) throw new ProtocolError(error.code, error.message);
  return fill(tool.result, given);
}

/** A prompt, or what it asks for first. */
export async function get(ctx, prompt, args, mint) {
  const given = textsOf(args);
  return (await ask(ctx, prompt, given, mint)) ?? fill(prompt.result, given);
}

/** The contents of a resource; throws the protocol's error for one there is not. */
export function read(uri) {
  const found = DATA.resources[uri];
  if (found !== undefined) return { contents: [{ uri, ...found }] };
  for (const [template, part] of Object.entries(DATA.templates)) {
    const [before, after] = template.split("{id}");
    const id = uri.slice(before.length, -after.length);
    if (id !== "" && uri === before + id + after) return { contents: [{ uri, ...fill(part, { id }) }] };
  }
  throw new ProtocolError(INVALID_PARAMS, "Resource not found", { uri });
}
