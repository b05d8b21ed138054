/** `io.tidings/calls/cancel`: a client stops a call that went on without it. */
import { TidingsError } from "../errors";
import type { Hub } from "../hub";
import { requestOf } from "./context";
import type { Handlers, SdkServer } from "./intercept";
import { type PrincipalOf, principalOf } from "./principal";
import * as wire from "./wire";

const CANCEL = "io.tidings/calls/cancel";

/** Serves the method. */
export function serveCallMethods(sdk: SdkServer, handlers: Handlers, hub: Hub, named: PrincipalOf): void {
  handlers.serve(CANCEL, async ({ params }, context) => {
    const callId = params?.["callId"];
    if (typeof callId !== "string") throw new wire.JsonRpcError(wire.INVALID_PARAMS, "callId must be a string");
    const [principal] = principalOf(named, requestOf(context), sdk.transport);
    let known: boolean;
    try {
      known = await hub.cancelCall(callId, { principal });
    } catch (error) {
      if (!(error instanceof TidingsError)) throw error;
      wire.warn("a call could not be cancelled", error);
      const data = { reason: error.code, retryable: error.retryable };
      throw new wire.JsonRpcError(wire.INTERNAL_ERROR, "The call could not be cancelled", data);
    }
    // The same for one that never was, is forgotten, or belongs to somebody else.
    if (!known) throw new wire.JsonRpcError(wire.INVALID_PARAMS, "Unknown call");
    return {};
  });
}
