// A peer of `deliveries`: signed posts in a loop that keeps nothing, by Node's own fetch or undici.request, on connections that
// stay open.
//
//   node _post.mjs fetch|undici PORT COUNT IN_FLIGHT SECRET BODY
//
// prints the seconds they took and the processor seconds they used.
import { createHmac } from "node:crypto";
import { createRequire } from "node:module";

const [client, port, count, inFlight, secret, text] = process.argv.slice(2);
const key = Buffer.from(secret.replace("whsec_", ""), "base64");
const body = Buffer.from(text);
const url = `http://127.0.0.1:${port}/hook`;

async function withFetch(headers) {
  const response = await fetch(url, { method: "POST", headers, body });
  await response.arrayBuffer();
  return response.status;
}

function withUndici() {
  // Where bench/run installs it.
  const require = createRequire(new URL("../../.cache/bench-node/package.json", import.meta.url));
  const { Agent, request } = require("undici");
  const dispatcher = new Agent({ connections: Number(inFlight) });
  return async (headers) => {
    const { statusCode, body: answer } = await request(url, { method: "POST", headers, body, dispatcher });
    await answer.dump();
    return statusCode;
  };
}

const post = client === "undici" ? withUndici() : withFetch;
let left = 0;

async function posts() {
  while (left > 0) {
    const id = `msg_${left--}`;
    const moment = Math.floor(Date.now() / 1000);
    const mac = createHmac("sha256", key).update(`${id}.${moment}.`).update(body).digest("base64");
    const status = await post({
      "content-type": "application/json",
      "webhook-id": id,
      "webhook-timestamp": String(moment),
      "webhook-signature": `v1,${mac}`,
    });
    if (status !== 200) throw new Error("the sink did not take it");
  }
}

async function run(posted) {
  left = posted;
  await Promise.all(Array.from({ length: Number(inFlight) }, posts));
}

await run(Number(inFlight));
const [began, cpu] = [performance.now(), process.cpuUsage()];
await run(Number(count));
const used = process.cpuUsage(cpu);
console.log((performance.now() - began) / 1_000, (used.user + used.system) / 1e6);
process.exit();
