// The tools, prompts and resources that the official conformance suite asks a server for, in its own words.
//
// What each has to be stands in the suite's scenarios. A tool is a function from the request's context and the arguments to
// a result as it goes over the wire.
import { setTimeout as sleep } from "node:timers/promises";
import { deflateSync, crc32 } from "node:zlib";

import { InMemoryServerEventBus, ProtocolError } from "./packages.mjs";

/** Where the tools that change a list say so. */
export const BUS = new InMemoryServerEventBus();

const INVALID_PARAMS = -32602;
const INTERNAL_ERROR = -32603;
const MISSING_CAPABILITY = -32021;
/** Milliseconds between two messages of a tool that sends several. */
const STEP = 50;

/** CRC-32 as PNG has it; `zlib.crc32` came with Node.js 22. */
function crc(bytes) {
  if (crc32) return crc32(bytes);
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return (sum ^ 0xffffffff) >>> 0;
}

/** One red pixel. */
function png() {
  const chunk = (kind, data) => {
    const named = Buffer.concat([Buffer.from(kind), data]);
    const framed = Buffer.alloc(8);
    framed.writeUInt32BE(data.length, 0);
    framed.writeUInt32BE(crc(named), 4);
    return Buffer.concat([framed.subarray(0, 4), named, framed.subarray(4)]);
  };
  const header = Buffer.from([0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0]);
  const pixels = deflateSync(Buffer.from([0, 255, 0, 0]));
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const chunks = [chunk("IHDR", header), chunk("IDAT", pixels), chunk("IEND", Buffer.alloc(0))];
  return Buffer.concat([signature, ...chunks]).toString("base64");
}

/** Two silent samples. */
function wav() {
  const head = Buffer.alloc(48);
  head.write("RIFF", 0);
  head.writeUInt32LE(40, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(8000, 24);
  head.writeUInt32LE(8000, 28);
  head.writeUInt16LE(1, 32);
  head.writeUInt16LE(8, 34);
  head.write("data", 36);
  head.writeUInt32LE(4, 40);
  return head.toString("base64");
}

const IMAGE = { type: "image", data: png(), mimeType: "image/png" };
const STRING = { type: "string" };

// -- results

const content = (...blocks) => ({ content: blocks });
const text = (said) => ({ type: "text", text: said });
const resource = (uri, mimeType, said) => ({ type: "resource", resource: { uri, mimeType, text: said } });

/** A request for input, as it stands in an InputRequiredResult. */
const elicitation = (message, properties) => ({
  method: "elicitation/create",
  params: { message, requestedSchema: { type: "object", properties, required: Object.keys(properties) } },
});
const sampling = (prompt, maxTokens) => ({
  method: "sampling/createMessage",
  params: { messages: [{ role: "user", content: text(prompt) }], maxTokens },
});
const ROOTS = { method: "roots/list", params: {} };

function asks(inputRequests, requestState) {
  return { resultType: "input_required", inputRequests, ...(requestState === undefined ? {} : { requestState }) };
}

/** What the client answered, by the name it was asked under. */
const answers = (ctx) => ctx.mcpReq.inputResponses ?? {};
/** One field of an elicited form, or nothing while nobody filled it in. */
const filledIn = (ctx, name, field) => answers(ctx)[name]?.content?.[field];
/** The capabilities that the client declared with this request. */
const capabilities = (ctx) => ctx.mcpReq.envelope?.["io.modelcontextprotocol/clientCapabilities"] ?? {};

// -- tools of both eras

const log = (ctx, data) => ctx.mcpReq.notify({ method: "notifications/message", params: { level: "info", data } });

async function elicit(ctx, message, properties, required = []) {
  const requestedSchema = { type: "object", properties, required };
  const answer = await ctx.mcpReq.elicitInput({ message, requestedSchema });
  return text(`User response: action=${answer.action}, content=${JSON.stringify(answer.content)}`);
}

const titled = (...names) => names.map((title, n) => ({ const: `value${n + 1}`, title }));
const OPTIONS = ["option1", "option2", "option3"];

async function confirmed(ctx, mint) {
  if (filledIn(ctx, "confirm", "ok") === undefined || ctx.mcpReq.requestState() !== "asked") {
    return asks({ confirm: elicitation("Please confirm", { ok: { type: "boolean" } }) }, await mint("asked"));
  }
  return content(text("state-ok"));
}

/** By name: the properties of the input, all of them required, and the function; `mint` seals a state for the client. */
const tools = {
  test_simple_text: [{}, () => content(text("This is a simple text response for testing."))],
  test_image_content: [{}, () => content(IMAGE)],
  test_audio_content: [{}, () => content({ type: "audio", data: wav(), mimeType: "audio/wav" })],
  test_embedded_resource: [
    {},
    () => content(resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
  ],
  test_multiple_content_types: [
    {},
    () =>
      content(
        text("Multiple content types test:"),
        IMAGE,
        resource("test://mixed-content-resource", "application/json", JSON.stringify({ test: "data", value: 123 })),
      ),
  ],
  test_tool_with_logging: [
    {},
    async (ctx) => {
      for (const said of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
        await log(ctx, said);
        await sleep(STEP);
      }
      return content(text("Three messages were logged."));
    },
  ],
  test_logging_tool: [
    {},
    async (ctx) => {
      await ctx.mcpReq.log("info", "logged");
      return content(text("One message was logged."));
    },
  ],
  test_error_handling: [{}, () => ({ ...content(text("This tool intentionally returns an error for testing")), isError: true })],
  test_tool_with_progress: [
    {},
    async (ctx) => {
      const progressToken = ctx.mcpReq._meta?.progressToken;
      for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
        await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
        await sleep(STEP);
      }
      return content(text("All of it is done."));
    },
  ],
  test_sampling: [
    { prompt: STRING },
    async (ctx, { prompt }) => {
      const answer = await ctx.mcpReq.requestSampling(sampling(prompt, 100).params);
      return content(text(`LLM response: ${answer.content.text}`));
    },
  ],
  test_elicitation: [
    { message: STRING },
    async (ctx, { message }) => {
      const fields = {
        username: { ...STRING, description: "User's response" },
        email: { ...STRING, description: "User's email address" },
      };
      return content(await elicit(ctx, message, fields, Object.keys(fields)));
    },
  ],
  test_elicitation_sep1034_defaults: [
    {},
    async (ctx) =>
      content(
        await elicit(ctx, "Please confirm", {
          name: { ...STRING, default: "John Doe" },
          age: { type: "integer", default: 30 },
          score: { type: "number", default: 95.5 },
          status: { ...STRING, enum: ["active", "inactive", "pending"], default: "active" },
          verified: { type: "boolean", default: true },
        }),
      ),
  ],
  test_elicitation_sep1330_enums: [
    {},
    async (ctx) =>
      content(
        await elicit(ctx, "Please choose", {
          untitledSingle: { ...STRING, enum: OPTIONS },
          titledSingle: { ...STRING, oneOf: titled("First Option", "Second Option", "Third Option") },
          legacyEnum: {
            ...STRING,
            enum: ["opt1", "opt2", "opt3"],
            enumNames: ["Option One", "Option Two", "Option Three"],
          },
          untitledMulti: { type: "array", items: { ...STRING, enum: OPTIONS } },
          titledMulti: { type: "array", items: { anyOf: titled("First Choice", "Second Choice", "Third Choice") } },
        }),
      ),
  ],
  test_reconnection: [
    {},
    async (ctx) => {
      ctx.http?.closeSSE?.();
      await sleep(STEP);
      return content(text("The client came back for this."));
    },
  ],

  // -- tools of 2026-07-28

  test_custom_header: [
    { region: { ...STRING, "x-mcp-header": "Region" } },
    (_ctx, { region }) => content(text(`region=${region}`)),
  ],
  test_missing_capability: [
    {},
    (ctx) => {
      if (capabilities(ctx).sampling === undefined) {
        const data = { requiredCapabilities: { sampling: {} } };
        throw new ProtocolError(MISSING_CAPABILITY, "This tool needs sampling", data);
      }
      return content(text("sampling was declared"));
    },
  ],
  test_streaming_elicitation: [
    {},
    (ctx) =>
      filledIn(ctx, "name", "name") === undefined
        ? asks({ name: elicitation("What is your name?", { name: STRING }) })
        : content(text("thank you")),
  ],
  test_trigger_tool_change: [
    {},
    () => {
      BUS.publish({ kind: "tools_list_changed" });
      return content(text("the tools changed"));
    },
  ],
  test_trigger_prompt_change: [
    {},
    () => {
      BUS.publish({ kind: "prompts_list_changed" });
      return content(text("the prompts changed"));
    },
  ],
  test_input_required_result_elicitation: [
    {},
    (ctx) => {
      const name = filledIn(ctx, "user_name", "name");
      if (typeof name !== "string") return asks({ user_name: elicitation("What is your name?", { name: STRING }) });
      return content(text(`Hello, ${name}!`));
    },
  ],
  test_input_required_result_sampling: [
    {},
    (ctx) => {
      const answer = answers(ctx).capital_question;
      if (answer === undefined) return asks({ capital_question: sampling("What is the capital of France?", 100) });
      return content(text(`The model said: ${JSON.stringify(answer.content)}`));
    },
  ],
  test_input_required_result_list_roots: [
    {},
    (ctx) => {
      const answer = answers(ctx).client_roots;
      if (answer === undefined) return asks({ client_roots: ROOTS });
      return content(text(`The roots are ${JSON.stringify(answer.roots)}`));
    },
  ],
  test_input_required_result_request_state: [{}, (ctx, _arguments, mint) => confirmed(ctx, mint)],
  // The SDK's codec refuses a state that it did not seal.
  test_input_required_result_tampered_state: [{}, (ctx, _arguments, mint) => confirmed(ctx, mint)],
  test_input_required_result_multiple_inputs: [
    {},
    async (ctx, _arguments, mint) => {
      const given = answers(ctx);
      if (["user_name", "greeting", "client_roots"].some((name) => given[name] === undefined)) {
        const requests = {
          user_name: elicitation("What is your name?", { name: STRING }),
          greeting: sampling("Generate a greeting", 50),
          client_roots: ROOTS,
        };
        return asks(requests, await mint("asked"));
      }
      return content(text(`Thank you, ${filledIn(ctx, "user_name", "name")}.`));
    },
  ],
  test_input_required_result_multi_round: [
    {},
    async (ctx, _arguments, mint) => {
      const state = ctx.mcpReq.requestState();
      const colour = filledIn(ctx, "step2", "color");
      if (state === "round 2" && colour !== undefined) return content(text(`You like ${colour}.`));
      if (state === "round 1" && filledIn(ctx, "step1", "name") !== undefined) {
        const step2 = elicitation("Step 2: What is your favorite color?", { color: STRING });
        return asks({ step2 }, await mint("round 2"));
      }
      return asks({ step1: elicitation("Step 1: What is your name?", { name: STRING }) }, await mint("round 1"));
    },
  ],
  test_input_required_result_capabilities: [
    {},
    (ctx) => {
      const can = capabilities(ctx);
      const requests = {
        ...(can.sampling && { question: sampling("What is the capital of France?", 100) }),
        ...(can.elicitation && { name: elicitation("What is your name?", { name: STRING }) }),
      };
      const answered = Object.keys(answers(ctx)).length > 0;
      return Object.keys(requests).length === 0 || answered ? content(text("nothing is asked")) : asks(requests);
    },
  ],

  // -- tools that may become tasks (SEP-2663)

  greet: [{ name: STRING }, (_ctx, { name }) => content(text(`Hello, ${name}!`))],
  slow_compute: [
    { seconds: { type: "number" }, label: STRING },
    async (_ctx, { seconds = 0, label = "it" }) => {
      await sleep(seconds * 1_000);
      return content(text(`${label} was computed`));
    },
  ],
  failing_job: [
    {},
    async () => {
      await sleep(1_000);
      return { ...content(text("The job failed.")), isError: true };
    },
  ],
  protocol_error_job: [
    {},
    async () => {
      await sleep(STEP);
      throw new ProtocolError(INTERNAL_ERROR, "The job broke the protocol");
    },
  ],
  confirm_delete: [
    { filename: STRING },
    (ctx, { filename = "it" }) =>
      Object.keys(answers(ctx)).length === 0
        ? asks({ confirm: elicitation("Delete it?", { confirm: { type: "boolean" } }) })
        : content(text(`${filename} is deleted`)),
  ],
  multi_input: [
    {},
    (ctx) => {
      if (Object.keys(answers(ctx)).length >= 2) return content(text("both were answered"));
      const name = elicitation("What is your name?", { name: STRING });
      return asks({ name, age: elicitation("How old are you?", { age: STRING }) });
    },
  ],
  test_tool_with_task: [
    {},
    async (ctx) => {
      const name = filledIn(ctx, "user_name", "name");
      if (name === undefined) return asks({ user_name: elicitation("What is your name?", { name: STRING }) });
      await sleep(1_000);
      return content(text(`Worked for ${name}.`));
    },
  ],
};

/** Tools whose every call becomes a task at once, and those that a client without the extension may not call. */
export const TASKS = {
  ...Object.fromEntries(["slow_compute", "protocol_error_job", "confirm_delete", "multi_input"].map((name) => [name, "always"])),
  ...Object.fromEntries(["failing_job", "test_tool_with_task"].map((name) => [name, "required"])),
};
/** Those whose arguments may all be left out. */
const FREE = ["slow_compute", "confirm_delete"];

const JSON_SCHEMA_2020_12 = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: { $anchor: "addressDef", type: "object", properties: { street: STRING, city: STRING } },
  },
  properties: {
    name: STRING,
    address: { $ref: "#/$defs/address" },
    contactMethod: { ...STRING, enum: ["phone", "email"] },
    phone: STRING,
    email: STRING,
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};

/** By name: the input schema and the function. */
export const TOOLS = new Map([
  ...Object.entries(tools).map(([name, [properties, run]]) => [
    name,
    { schema: { type: "object", properties, required: FREE.includes(name) ? [] : Object.keys(properties) }, run },
  ]),
  ["json_schema_2020_12_tool", { schema: JSON_SCHEMA_2020_12, run: () => content(text("the schema is the point")) }],
]);

// -- prompts

const says = (...blocks) => ({ messages: blocks.map((block) => ({ role: "user", content: block })) });

export const PROMPTS = new Map([
  ["test_simple_prompt", [[], () => says(text("This is a simple prompt for testing."))]],
  [
    "test_prompt_with_arguments",
    [["arg1", "arg2"], (_ctx, { arg1, arg2 }) => says(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
  ],
  [
    "test_prompt_with_embedded_resource",
    [
      ["resourceUri"],
      (_ctx, { resourceUri }) =>
        says(
          resource(resourceUri, "text/plain", "Embedded resource content for testing."),
          text("Please process the embedded resource above."),
        ),
    ],
  ],
  ["test_prompt_with_image", [[], () => says(IMAGE, text("Please analyze the image above."))]],
  [
    "test_input_required_result_prompt",
    [
      [],
      (ctx) => {
        const given = filledIn(ctx, "user_context", "context");
        const asked = elicitation("What context should the prompt use?", { context: STRING });
        return given === undefined ? asks({ user_context: asked }) : says(text(`Context: ${given}`));
      },
    ],
  ],
]);

// -- resources

export const TEMPLATE = "test://template/{id}/data";
const TEXT = { mimeType: "text/plain", text: "This is the content of the static text resource." };
export const RESOURCES = new Map([
  ["test://static-text", TEXT],
  ["test://static-binary", { mimeType: "image/png", blob: IMAGE.data }],
  ["test://watched-resource", TEXT],
]);

/** The contents of a resource; throws the protocol's error for one there is not. */
export function read(uri) {
  const found = RESOURCES.get(uri);
  if (found !== undefined) return { contents: [{ uri, ...found }] };
  const [, id] = /^test:\/\/template\/(.+)\/data$/.exec(uri) ?? [];
  if (id === undefined) throw new ProtocolError(INVALID_PARAMS, "Resource not found", { uri });
  const data = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
  return { contents: [{ uri, mimeType: "application/json", text: data }] };
}
