import type { Json } from '#base/json.ts'
import { toText } from '#events/github-payloads/to-text.ts'

const maxBodyBytes = 1024 * 1024
// More than `svc` and `truncated` need.
const maxEnvelopeBytes = 2048

/** The limit in bytes for the part that all deliveries of an event have in common. */
export const sharedMaxBytes = maxBodyBytes - maxEnvelopeBytes

export function byteLength(value: Json): number {
  return Buffer.byteLength(toText(value))
}
