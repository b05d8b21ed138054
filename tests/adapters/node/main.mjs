// Answers the conformance runner over the public API of the npm package.
//
//   node tests/adapters/node/main.mjs main      in the main thread
//   node tests/adapters/node/main.mjs worker    in a worker thread
//
// A question a line on stdin, an answer a line on stdout. It only converts; what it says is what the library says.
import { createInterface } from "node:readline";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { fileURLToPath } from "node:url";

const FEATURES = ["webhook", "encryption", "config", "errors", "streams", "calls", "tasks", "processes", "crash", "outlets", "fanout"];

async function answerer(mode) {
  // Here, so that in the worker's mode only the worker loads the package.
  const { Stage, errorTold } = await import("./steps.mjs");
  const { setLogger, TidingsError } = await import("../../../node/dist/index.mjs");
  setLogger(() => {}); // what the library warns of is what the scenarios provoke
  const stage = new Stage();
  return async ({ id, op, in: given }) => {
    if (op === "hello") return { id, out: { surface: `node_${mode}`, features: FEATURES } };
    const step = stage.find(op);
    if (step === undefined) return { id, unsupported: true };
    try {
      return { id, out: await step.call(stage, given) };
    } catch (error) {
      return error instanceof TidingsError ? { id, out: errorTold(error) } : { id, error: String(error?.stack ?? error) };
    }
  };
}

if (isMainThread) {
  const mode = process.argv[2];
  let ask;
  if (mode === "worker") {
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: { mode } });
    worker.on("error", (error) => {
      console.error(error);
      process.exit(1);
    });
    ask = (question) =>
      new Promise((resolve) => {
        worker.once("message", resolve);
        worker.postMessage(question);
      });
  } else {
    ask = await answerer(mode);
  }
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await ask(JSON.parse(line)))}\n`);
  }
  process.exit(0);
} else {
  const ask = await answerer(workerData.mode);
  parentPort.on("message", async (question) => parentPort.postMessage(await ask(question)));
}
