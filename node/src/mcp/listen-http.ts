/** A listener over HTTP: one response is one listener. */
import { Listener, type ListenerPlace } from "./listen";
import { SSE_HEADERS } from "./sse";

/** Bytes that may wait for a client before a write waits for it. */
const BUFFER = 16_384;

/** Writes to one response. `signal`: the client has left. */
export class HttpListener extends Listener {
  readonly response: Response;
  readonly #encoder = new TextEncoder();
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #drained: (() => void) | undefined;
  readonly #keepAlive: NodeJS.Timeout;
  readonly #aborted = (): void => this.gone();

  constructor(
    place: ListenerPlace,
    keepAliveMs: number,
    readonly signal: AbortSignal,
  ) {
    super(place);
    const readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => void (this.#controller = controller),
        pull: () => this.#drained?.(),
        cancel: () => this.gone(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: BUFFER }),
    );
    this.response = new Response(readable, { headers: SSE_HEADERS });
    this.#keepAlive = setInterval(() => {
      // Only for who has read everything: what is not read would be kept.
      if ((this.#controller.desiredSize ?? 0) >= BUFFER) this.#enqueue(": keepalive\n\n");
    }, keepAliveMs).unref();
    signal.addEventListener("abort", this.#aborted, { once: true });
  }

  override begin(listen: (sink: number) => number): void {
    super.begin(listen);
    if (this.signal.aborted) this.gone();
  }

  write(method: string, params: string | undefined): void | Promise<void> {
    if (this.closed) throw new Error("the connection is closed");
    this.#message(params === undefined ? `"method":"${method}"` : `"method":"${method}","params":${params}`);
    if ((this.#controller.desiredSize ?? 0) > 0) return;
    return new Promise((resolve) => {
      this.#drained = () => {
        this.#drained = undefined;
        resolve();
      };
    });
  }

  failed(): void {
    this.close();
    try {
      this.#controller.error(new Error("the client did not read its notifications"));
    } catch {
      // It is closed.
    }
  }

  finished(): void {
    if (this.closed) return;
    this.#message(`"id":${JSON.stringify(this.place.asked.id)},"result":${this.result()}`);
    this.gone();
    this.#controller.close();
  }

  protected override close(): void {
    super.close();
    clearInterval(this.#keepAlive);
    this.signal.removeEventListener("abort", this.#aborted);
    this.#drained?.();
  }

  #message(members: string): void {
    this.#enqueue(`event: message\ndata: {"jsonrpc":"2.0",${members}}\n\n`);
  }

  #enqueue(text: string): void {
    this.#controller.enqueue(this.#encoder.encode(text));
  }
}
