/** Where a client puts the config of a `tools/call`: into its parameters, or, where its SDK has no room there, into its `_meta`. */
import { type Context, withMeta } from "./context";
import type { Message, Params } from "./intercept";
import * as wire from "./wire";

/**
 * The same request with a config in its `_meta` where the others have it, or without that unless `keep`: its tool does not see it.
 * One in the parameters is preferred, whatever it is.
 */
export function configMoved(message: Message, context: Context, keep: boolean): [Message, Context] {
  const given = message.params?.["_meta"] as Params | null | undefined;
  if (typeof given !== "object" || given === null || !Object.hasOwn(given, wire.EXTENSION)) return [message, context];
  const { [wire.EXTENSION]: config, ..._meta } = given;
  const params: Params = { ...message.params, _meta };
  if (keep && params[wire.CONFIG] === undefined) params[wire.CONFIG] = config;
  return [{ ...message, params }, withMeta(context, ({ [wire.EXTENSION]: _, ...meta }) => meta)];
}
