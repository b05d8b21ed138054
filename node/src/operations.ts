/** What an operator sees and does by hand. */

/** One delivery, for people. It holds no body, address or secret. */
export interface Delivery {
  readonly id: string;
  /** The firing's id: the `webhook-id`, the same on every attempt and route. */
  readonly eventId: string;
  readonly callId?: string;
  readonly principal: string;
  readonly trigger: string;
  readonly route: string;
  readonly state: DeliveryState;
  /** Attempts begun. */
  readonly attempts: number;
  /** The category of the last failure, never the receiver's own text. */
  readonly lastError?: string;
}

export type DeliveryState = "pending" | "leased" | "retrying" | "delivered" | "dead" | "expired" | "superseded";

/** A URL of one principal, as deliveries know it. Never the URL itself, which may hold a secret. */
export interface Endpoint {
  /** Its key, in hex. */
  readonly key: string;
  /** Whose it is. */
  readonly principal: string;
  readonly host: string;
  readonly state: "unverified" | "verified" | "disabled";
  /** How it was verified. */
  readonly proof?: "challenge" | "well_known" | "allow_list" | "address";
  /** Why it is disabled. */
  readonly disabled?: "gone" | "failing" | "unverified" | "operator";
  /** Failures in a row. */
  readonly failures: number;
  /** Its breaker has opened since the last success. */
  readonly tripped: boolean;
  /** The category of the last failure. */
  readonly lastError?: string;
}

/** What a hub has done and holds, at one moment. */
export interface Stats {
  /** Groups committed by this process. */
  readonly groups: number;
  /** Events of this process's writers committed. */
  readonly events: number;
  /** Events given up while the store was down. */
  readonly lost: number;
  /** Events dropped because another writer had claimed the stream or it was closed. */
  readonly refused: number;
  /** Groups that failed. */
  readonly failures: number;
  /** The last group failed: events wait in memory. */
  readonly failing: boolean;
  /** Attempts at deliveries that ended. */
  readonly attempts: number;
  /** Deliveries that ended here as `delivered`. */
  readonly delivered: number;
  /** The same as `dead`. */
  readonly dead: number;
  /** The same as `expired`. */
  readonly expired: number;
  /** The same as `superseded`: the next route took over. */
  readonly superseded: number;
  /** Attempts at webhooks under way. */
  readonly inFlight: number;
}
