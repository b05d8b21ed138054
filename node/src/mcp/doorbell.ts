/** A signal for the process at the other end of stdio, on Linux: routes of type `signal`. */
import { entry } from "../errors";
import { native, type NativeDoorbell } from "../native";
import * as wire from "./wire";

/** What becomes of a ring: the names of `HostDelivery`'s refusals, or `rung`. */
export type Rung = ReturnType<NativeDoorbell["ring"]>;

/**
 * The process at the other end of stdin. It is pinned by a pidfd before anything is sent: a number that comes over the wire is
 * never used, and a process that took the number of one that died never gets its signal. The default action of every signal that
 * may ring ends a process that does not handle it, so that each time it is looked whether the peer does.
 */
export class Doorbell {
  readonly #native: NativeDoorbell;

  /** `undefined` where there is none, and a warning of the process says why. */
  static ofStdio(asRoot: boolean): Doorbell | undefined {
    const found = entry(() => native.doorbellOfStdio(asRoot));
    if (typeof found !== "string") return new Doorbell(found);
    wire.warn("routes of type 'signal' are not offered", found);
    return undefined;
  }

  private constructor(doorbell: NativeDoorbell) {
    this.#native = doorbell;
  }

  ring(signal: string): Rung {
    return entry(() => this.#native.ring(signal));
  }
}
