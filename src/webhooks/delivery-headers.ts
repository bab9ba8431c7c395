import type { Sensitive } from '#base/sensitive.ts'
import type { DeliveryJob } from './delivery-job.ts'
import { signatureHeaders } from './signatures.ts'

type Options = {
  body: Uint8Array
  secrets: Sensitive<string>[]
  /** When the attempt starts. */
  now: number
  version: string
}

/** The headers of an attempt: those of GitHub, those of Standard Webhooks, and our own. */
export function deliveryHeaders(
  { delivery, target }: Pick<DeliveryJob, 'delivery' | 'target'>,
  { body, secrets, now, version }: Options,
): Record<string, string> {
  const { id, event, seq, previousSeq, attempts } = delivery
  const timestamp = Math.floor(now / 1000)
  return {
    host: new URL(target.url).host,
    'content-type': 'application/json',
    'content-length': String(body.length),
    'user-agent': `svc/${version}`,
    'x-github-event': event,
    'x-github-delivery': id,
    'x-github-hook-id': target.id,
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    ...signatureHeaders({ secrets, id, timestamp, body }),
    'x-svc-event': event,
    'x-svc-delivery': id,
    'x-svc-webhook': target.id,
    'x-svc-repository': target.repositoryName,
    'x-svc-attempt': String(attempts + 1),
    ...(seq !== null && { 'x-svc-sequence': String(seq) }),
    ...(previousSeq !== null && { 'x-svc-previous-sequence': String(previousSeq) }),
  }
}
