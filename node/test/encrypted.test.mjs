// Bodies that only their receiver can read: from a hub to the receiver kit, and to and from another JOSE library.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { CompactEncrypt, compactDecrypt, exportJWK, generateKeyPair } from "jose";
import { DecryptionKeys, InvalidArgumentError, WebhookError } from "tidings";
import { Receiver } from "tidings/webhook";

import { hub } from "./harness.mjs";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const LOCAL = { allowHttp: true, allowNetworks: ["127.0.0.0/8"], verify: "address" };

async function keys(crv) {
  const { privateKey, publicKey } = await generateKeyPair("ECDH-ES", { crv, extractable: true });
  return { privateKey, publicKey, private: await exportJWK(privateKey), public: { ...(await exportJWK(publicKey)), kid: "k1" } };
}

/** Serves the kit; answers its URL and what comes in, as it came. */
async function serving(t, options) {
  const [raw, got] = [[], []];
  let arrived;
  const first = new Promise((resolve) => (arrived = resolve));
  const kit = new Receiver({ secrets: [SECRET], handler: (incoming) => void got.push(incoming), ...options });
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    raw.push({ body, headers: request.headers });
    const answer = await kit.receive(body, request.headers);
    response.writeHead(answer.status, answer.headers).end(answer.body);
    arrived();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}/hook`, raw, got, first };
}

for (const crv of ["P-256", "X25519"]) {
  test(`${crv}: the kit and another library read what a hub sends`, async (t) => {
    const key = await keys(crv);
    const receiver = await serving(t, { keys: [key.private] });
    const made = await hub(t, LOCAL);
    const route = { id: "r", type: "webhook", endpoint: receiver.url, triggers: ["completed"], secret: SECRET };
    const config = JSON.stringify({ routes: [{ ...route, publicKey: key.public }] });
    const call = await made.beginCall({ config, principal: "p", requestId: 1, tool: "t" });
    await call.complete('{"n":1.0}');
    await receiver.first;
    const [{ body, headers }] = receiver.raw;
    assert.equal(headers["content-type"], "application/jose");
    const opened = await compactDecrypt(body, key.privateKey);
    assert.deepEqual(Buffer.from(opened.plaintext), Buffer.from(receiver.got[0].body));
    assert.match(receiver.got[0].text(), /"result":\{"n":1\.0\}/);
    assert.deepEqual(
      [opened.protectedHeader.alg, opened.protectedHeader.enc, opened.protectedHeader.kid],
      ["ECDH-ES", "A256GCM", "k1"],
    );
  });

  test(`${crv}: we read what another library encrypts`, async () => {
    const [key, other] = [await keys(crv), await keys(crv)];
    const header = { alg: "ECDH-ES", enc: "A256GCM" };
    const body = await new CompactEncrypt(Buffer.from("é😀")).setProtectedHeader(header).encrypt(key.publicKey);
    const both = new DecryptionKeys(other.private, JSON.stringify(key.private));
    assert.equal(Buffer.from(both.decrypt(body)).toString(), "é😀");
    assert.throws(
      () => new DecryptionKeys(other.private).decrypt(body),
      (error) => error instanceof WebhookError && error.code === "jwe_no_key",
    );
  });
}

test("keys are checked, and their text is in no message", async () => {
  const key = await keys("P-256");
  for (const bad of [[], [key.public], [{ ...key.private, crv: "P-384" }], ["{"]]) {
    assert.throws(
      () => new DecryptionKeys(...bad),
      (error) => error instanceof InvalidArgumentError && !error.message.includes(key.private.d),
    );
  }
});
