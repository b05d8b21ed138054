/** Which tool calls become tasks, and on which terms. */
import { InvalidArgumentError } from "../errors";
import type { Task } from "../hub";
import type { Params } from "./intercept";

/** What becomes of the calls of a tool. */
export type TaskMode = "auto" | "always" | "never" | "required";

/** How tool calls become tasks; `attach(…, { tasks: "auto" })` stands for `{}`. */
export interface TasksOptions {
  /** How long a call runs as a plain call before it becomes a task. Default: 2,000. */
  inlineMs?: number;
  /**
   * How long a task can be asked for after its end. At most what the hub's retention keeps of a closed stream. Default:
   * 3,600,000.
   */
  ttlMs?: number;
  /** How often a client should ask. Default: 1,000. */
  pollMs?: number;
  /**
   * By tool name: `"always"` a task and at once, `"never"`, `"auto"`, which all others are, or `"required"`: as `"auto"`, and a
   * request of 2026-07-28 that does not declare the extension is refused with -32021.
   */
  tools?: Readonly<Record<string, TaskMode>>;
  /** The JSON-RPC code of `events_gone` from `tasks/stream`. */
  eventsGoneCode?: number;
  /**
   * How many streams of tasks a principal, or else a session, may read at once in one process; where there is neither, so many
   * of one task. Default: 16.
   */
  streams?: number;
  /** How many times a minute each of them may ask for the stream of one task. Default: 60. */
  resumes?: number;
}

/** SEP-2694's code. It lies in a range where 2026-07-28 allows no new codes, so that clients go by `data.reason`. */
const EVENTS_GONE = -32_010;

const MODES: readonly TaskMode[] = ["auto", "always", "never", "required"];

/** The terms, checked. */
export class Tasks {
  readonly inlineMs: number;
  readonly ttlMs: number;
  readonly pollMs: number;
  readonly eventsGoneCode: number;
  readonly streams: number;
  readonly resumes: number;
  readonly #tools: ReadonlyMap<string, TaskMode>;

  /** What `attach` was given; `undefined` where there are to be no tasks. Throws for anything else. */
  static checked(given: unknown): Tasks | undefined {
    if (given === "off" || given === undefined) return undefined;
    if (given === "auto") return new Tasks({});
    if (typeof given === "object" && given !== null) return new Tasks(given);
    throw new InvalidArgumentError('tasks: must be "off", "auto" or an object of terms');
  }

  private constructor(given: TasksOptions) {
    const count = (name: keyof TasksOptions, fallback: number): number => {
      const value = given[name] ?? fallback;
      if (!Number.isSafeInteger(value) || (value as number) < 1) {
        throw new InvalidArgumentError(`tasks.${name}: must be a whole number, 1 or more`);
      }
      return value as number;
    };
    this.inlineMs = count("inlineMs", 2_000);
    this.ttlMs = count("ttlMs", 3_600_000);
    this.pollMs = count("pollMs", 1_000);
    this.streams = count("streams", 16);
    this.resumes = count("resumes", 60);
    this.eventsGoneCode = given.eventsGoneCode ?? EVENTS_GONE;
    if (!Number.isSafeInteger(this.eventsGoneCode)) {
      throw new InvalidArgumentError("tasks.eventsGoneCode: must be a whole number");
    }
    this.#tools = new Map(Object.entries(given.tools ?? {}));
    for (const [tool, mode] of this.#tools) {
      if (!MODES.includes(mode)) {
        throw new InvalidArgumentError(`tasks.tools[${JSON.stringify(tool)}]: must be one of ${MODES.join(", ")}`);
      }
    }
  }

  /** What becomes of calls of this tool. */
  mode(tool: string): TaskMode {
    return this.#tools.get(tool) ?? "auto";
  }

  /** The members of a task on the wire. */
  shown(task: Task): Params {
    return { ...(JSON.parse(task.json) as Params), pollIntervalMs: this.pollMs };
  }
}
