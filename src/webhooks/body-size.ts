import { toText } from '../github-payloads/to-text.ts'
import type { Json } from '../workflow-parser/scope.ts'

const bodyMaxBytes = 1024 * 1024
// What `svc` and `truncated` take, with room to spare.
const ownMaxBytes = 2048

/** Bytes of what all deliveries of an event have in common. */
export const sharedMaxBytes = bodyMaxBytes - ownMaxBytes

export function byteLength(value: Json): number {
  return Buffer.byteLength(toText(value))
}
