/** Who asks. */
import { randomUUID } from "node:crypto";

import type { AuthInfo, Request } from "./context";
import { connectionOf } from "./transports";

/** The principal of what a server's authentication found; `undefined`: nobody in particular. */
export type PrincipalOf = (authInfo: AuthInfo) => string | undefined;

/** Where detached calls are counted whose principal lives no longer than one request. */
const ANONYMOUS = "anonymous";

/** A connection without a session stands in for its principal. */
const connections = new WeakMap<object, string>();

/** The text that names an authenticated principal; byte for byte the same in every language, so that it can be shared. */
export function authenticated({ clientId, extra }: AuthInfo): string {
  const text = (value: unknown): string | null => (typeof value === "string" ? value : null);
  const json = JSON.stringify([text(extra?.["iss"]), text(extra?.["sub"]), clientId]);
  const ascii = json.replace(/[\u007f-\uffff]/g, (unit) =>
    unit === "\u007f" ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `auth:${ascii}`;
}

/** The principal of a request, and under which name its detached calls are counted. */
export function principalOf(
  named: PrincipalOf,
  request: Pick<Request, "authInfo" | "sessionId">,
  connection: object | undefined,
): [principal: string, countedAs: string] {
  const name = request.authInfo === undefined ? undefined : named(request.authInfo);
  if (name !== undefined) return [name, name];
  if (request.sessionId !== undefined) return [`session:${request.sessionId}`, `session:${request.sessionId}`];
  const own = connection && connectionOf(connection);
  const stand = (own && connections.get(own)) ?? `connection:${randomUUID()}`;
  if (own !== undefined) connections.set(own, stand);
  return [stand, ANONYMOUS];
}
