/** What goes on without its request: calls whose clients have gone, and tasks. Both count towards one limit. */
import type { Hub } from "../hub";

const counts = new WeakMap<Hub, Map<string, number>>();

/** Takes a place among what goes on in this process under a name; the answer gives it back. `undefined`: `most` have theirs. */
export function takePlace(hub: Hub, countedAs: string, most: number): (() => void) | undefined {
  let byName = counts.get(hub);
  if (byName === undefined) counts.set(hub, (byName = new Map()));
  const now = byName.get(countedAs) ?? 0;
  if (now >= most) return undefined;
  byName.set(countedAs, now + 1);
  return () => {
    const left = (byName.get(countedAs) ?? 1) - 1;
    if (left > 0) byName.set(countedAs, left);
    else byName.delete(countedAs);
  };
}
