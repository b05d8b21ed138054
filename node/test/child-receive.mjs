// Receives one webhook with the window in the store, and is killed right after it was answered.
import { Hub, Webhook } from "tidings";
import { Receiver, StoredSeen } from "tidings/webhook";

const [, , path, secret, id] = process.argv;
if (id === undefined) throw new Error("a path, a secret and an id are needed");
const { writeSync } = await import("node:fs");
const say = (text) => writeSync(1, `${text}\n`);
const seen = new StoredSeen(new Hub(`sqlite:${path}`));
const receiver = new Receiver({ secrets: [secret], handler: (incoming) => say(incoming.id), seen });
say((await receiver.receive("{}", new Webhook(secret).sign("{}", { id }))).status);
process.kill(process.pid, "SIGKILL");
