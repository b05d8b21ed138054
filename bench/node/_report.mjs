// What the Node benches share: the machine, medians with their range, quick runs, a table.
import { cpus, loadavg } from "node:os";

export const quick = process.argv.includes("--quick");

export function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

/** The median, and the least and the most. */
export function spread(values, digits = 0) {
  const [middle, least, most] = [median(values), Math.min(...values), Math.max(...values)].map((value) => value.toFixed(digits));
  return `${middle} (${least} to ${most})`;
}

export function machine() {
  return `Node.js ${process.version}, ${cpus().length} × ${cpus()[0].model.trim()}, load ${loadavg()[0].toFixed(1)}`;
}

/** Runs all sides in turns, `rounds` times; by side, what each round came to. */
export async function inTurns(sides, rounds) {
  const results = Object.fromEntries(Object.keys(sides).map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const [name, side] of Object.entries(sides)) {
      globalThis.gc?.();
      results[name].push(await side(round));
    }
  }
  return results;
}

/** Round by round, how many times as much one is as another. */
export function ratios(one, another) {
  return one.map((value, round) => value / another[round]);
}
