/** The requests about tasks: `tasks/get`, `tasks/update`, `tasks/cancel` (SEP-2663) and `tasks/stream` (SEP-2694). */
import { ClosedError, EndedError, InvalidArgumentError, TidingsError } from "../errors";
import type { Hub, Task } from "../hub";
import { type Context, type Request, requestOf } from "./context";
import type { Handler, Handlers, Params, SdkServer } from "./intercept";
import { type PrincipalOf, principalOf } from "./principal";
import { TaskStream } from "./task-stream";
import type { Tasks } from "./tasks";
import { answersInJson } from "./transports";
import * as wire from "./wire";

const HEADER_MISMATCH = -32_020;

/** A request about one task. */
export interface TaskRequest {
  readonly request: Request;
  readonly params: Params;
  readonly taskId: string;
  /** Who asks. */
  readonly asker: string;
}

/**
 * Who asks about tasks, and whether they are authenticated.
 *
 * An authenticated principal's task is that principal's. Where nobody is authenticated the task's id, 128 random bits, is all
 * there is to know: a request of 2026-07-28 has no session that could stand for anybody.
 */
export function asker(named: PrincipalOf, request: Request, connection: object | undefined): [name: string, bound: boolean] {
  const [name] = principalOf(named, request, connection);
  return [name, request.authInfo !== undefined && named(request.authInfo) !== undefined];
}

/** The handlers of one server. */
export class TaskMethods {
  readonly #stream: TaskStream | undefined;

  constructor(
    readonly sdk: SdkServer,
    readonly hub: Hub,
    readonly tasks: Tasks,
    readonly principal: PrincipalOf,
    streams: boolean,
  ) {
    this.#stream = streams ? new TaskStream(hub, tasks) : undefined;
  }

  /** Serves the methods, unless somebody serves tasks already; whether it does. Throws then, unless it may `stepAside`. */
  install(handlers: Handlers, stepAside: boolean): boolean {
    const methods: Record<string, (asked: TaskRequest) => Promise<unknown>> = {
      "tasks/get": (asked) => this.#get(asked),
      "tasks/update": (asked) => this.#update(asked),
      "tasks/cancel": (asked) => this.#cancel(asked),
      ...(this.#stream === undefined ? {} : { "tasks/stream": (asked) => this.#serveStream(asked) }),
    };
    const { extensions } = handlers.capabilities as { extensions?: Params };
    const taken = Object.keys(methods).filter((method) => handlers.has(method));
    if (taken.length > 0 || (extensions !== undefined && wire.TASKS in extensions)) {
      const found = taken.join(", ") || wire.TASKS;
      if (!stepAside) throw new Error(`this server has tasks already (${found}); leave tasks "off"`);
      process.emitWarning(`tidings: this server has tasks already (${found}): they stay its own, and ours are off`, {
        code: "TIDINGS_TASKS",
      });
      return false;
    }
    for (const [method, serve] of Object.entries(methods)) handlers.serve(method, this.#handler(method, serve));
    const settings = this.#stream === undefined ? {} : { eventStreams: {} };
    this.sdk.registerCapabilities({ extensions: { [wire.TASKS]: settings } });
    // To older clients the extension does not exist.
    handlers.around("initialize", async (request, context, next) => {
      const result = (await next(request, context)) as { capabilities?: { extensions?: Params } };
      const { [wire.TASKS]: _, ...others } = result.capabilities?.extensions ?? {};
      if (_ === undefined) return result;
      const { extensions: __, ...rest } = result.capabilities ?? {};
      return { ...result, capabilities: { ...rest, ...(Object.keys(others).length > 0 ? { extensions: others } : {}) } };
    });
    return true;
  }

  #handler(method: string, serve: (asked: TaskRequest) => Promise<unknown>): Handler {
    return async (message, context) => {
      const request = requestOf(context as Context);
      if (method !== "tasks/stream" || request.modern) this.#require(method, request);
      const params = message.params ?? {};
      const { taskId } = params;
      if (typeof taskId !== "string") throw new wire.JsonRpcError(wire.INVALID_PARAMS, "taskId must be a string");
      const header = request.header("mcp-name");
      if (request.modern && header !== undefined && decoded(header) !== taskId) {
        throw new wire.JsonRpcError(HEADER_MISMATCH, "The Mcp-Name header does not match the request body's taskId");
      }
      const [name] = asker(this.principal, request, this.sdk.transport);
      return serve({ request, params, taskId, asker: name });
    };
  }

  #require(method: string, request: Request): void {
    if (!request.modern) throw new wire.JsonRpcError(wire.METHOD_NOT_FOUND, "Method not found", method);
    if (!wire.declaresTasks(request.declared)) throw wire.undeclared();
  }

  async #get(asked: TaskRequest): Promise<unknown> {
    return this.tasks.shown(this.#find(asked));
  }

  async #update(asked: TaskRequest): Promise<unknown> {
    const { inputResponses } = asked.params;
    // The SDK takes this member out of the parameters that a handler sees.
    const given = inputResponses ?? asked.request.inputResponses;
    if (typeof given !== "object" || given === null || Array.isArray(given)) {
      throw new wire.JsonRpcError(wire.INVALID_PARAMS, "inputResponses must be an object");
    }
    try {
      const found = await this.hub.answerTask(asked.taskId, JSON.stringify(given), { principal: asked.asker });
      if (!found) throw unknown();
    } catch (error) {
      // It has ended meanwhile.
      if (!(error instanceof ClosedError || error instanceof EndedError)) throw failed(error);
    }
    return {};
  }

  async #cancel({ taskId, asker: principal }: TaskRequest): Promise<unknown> {
    let found: boolean;
    try {
      found = await this.hub.cancelTask(taskId, { principal });
    } catch (error) {
      throw failed(error);
    }
    if (!found) throw unknown();
    return {};
  }

  async #serveStream(asked: TaskRequest): Promise<unknown> {
    const { transport } = this.sdk;
    // With JSON responses the SDK takes notifications of a request and sends them nowhere.
    if (transport !== undefined && answersInJson(transport)) {
      throw new wire.JsonRpcError(wire.METHOD_NOT_FOUND, "Method not found: this server answers without streams", "tasks/stream");
    }
    try {
      await this.#stream?.serve(asked, this.#find(asked), transport);
    } catch (error) {
      throw failed(error);
    }
    return {};
  }

  #find({ taskId, asker: principal }: TaskRequest): Task {
    let task: Task | undefined;
    try {
      task = this.hub.task(taskId, { principal });
    } catch (error) {
      throw failed(error);
    }
    if (task === undefined) throw unknown();
    return task;
  }
}

/** The same for one that never was, is over, or belongs to somebody else. */
function unknown(): wire.JsonRpcError {
  return new wire.JsonRpcError(wire.INVALID_PARAMS, "Unknown task");
}

/** What to answer for what a hub throws. */
function failed(error: unknown): unknown {
  if (error instanceof InvalidArgumentError) return new wire.JsonRpcError(wire.INVALID_PARAMS, error.message);
  if (!(error instanceof TidingsError)) return error;
  wire.warn("a request about a task failed", error);
  const data = { reason: error.code, retryable: error.retryable };
  return new wire.JsonRpcError(wire.INTERNAL_ERROR, "The task could not be looked up", data);
}

/** A header's value, which may be in Base64 (SEP-2243). */
function decoded(value: string): string {
  const found = /^=\?base64\?(.*)\?=$/.exec(value.trim());
  return found?.[1] === undefined ? value.trim() : Buffer.from(found[1], "base64").toString("utf8");
}
