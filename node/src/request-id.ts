/**
 * A JSON-RPC request id as JSON text. Its type counts: `1` and `"1"` are two ids.
 *
 * @internal
 */
export function idText(id: string | number | bigint): string {
  return typeof id === "bigint" ? id.toString() : JSON.stringify(id);
}
