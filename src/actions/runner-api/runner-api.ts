import { type Static, Type } from 'typebox'
import { closed } from '#base/schema-options.ts'
import type { Plan } from '../workflow-engine/plan.ts'
import { EntrySchema } from './entry-schema.ts'
import { reportMaxEntries, waitMaxSeconds } from './transfer-limits.ts'

// The protocol between runners and the server: JSON over HTTP. A runner claims with a token that has the permission
// `runner`. Other requests use the token of the run, which is valid for this attempt only; for those, 401, 404 and 409
// mean that the run no longer belongs to the runner.

/** `POST /runner/claim`: waits for a run. Responds with 200 and a Claim, or with 204. */
export const ClaimBody = Type.Object(
  {
    name: Type.String({ description: 'name of the runner', minLength: 1, maxLength: 200 }),
    version: Type.String({ description: 'version of svc that the runner uses', maxLength: 100 }),
    labels: Type.Array(Type.String({ description: 'a label', minLength: 1, maxLength: 100 }), {
      description: 'up to 100 labels for `runs-on`',
      maxItems: 100,
    }),
    isolation: Type.Unsafe<'bubblewrap' | 'none'>({
      type: 'string',
      enum: ['bubblewrap', 'none'],
      description: 'sandbox of its steps: `bubblewrap` or `none`',
    }),
    waitSeconds: Type.Integer({
      description: `how long to wait, 0 to ${waitMaxSeconds} seconds`,
      minimum: 0,
      maximum: waitMaxSeconds,
    }),
  },
  closed,
)

/** A run with a lease, which each report and each poll for orders renews. */
export const Claim = Type.Object({
  claimToken: Type.String({ description: 'the token for requests about the run' }),
  leaseSeconds: Type.Integer({
    description: 'seconds without a request after which the run is given to another runner',
  }),
  plan: Type.Unsafe<Plan>({ type: 'object', description: 'everything needed to execute the run' }),
})

/** `POST /runner/runs/:id/report`: reports entries in order. */
export const ReportBody = Type.Object(
  {
    first: Type.Integer({
      description: 'number of the first entry, counted from 0 within the attempt',
      minimum: 0,
    }),
    entries: Type.Array(EntrySchema, {
      description: `up to ${reportMaxEntries} entries`,
      maxItems: reportMaxEntries,
    }),
  },
  closed,
)

const cancel = Type.Unsafe<string | null>({
  type: ['string', 'null'],
  description: 'why the run is to be cancelled, null while it is not',
})

/** The response to a report. Entries that the server already has are ignored. */
export const Reported = Type.Object({
  next: Type.Integer({ description: 'number of the next entry that the server expects' }),
  cancel,
})

/** `GET /runner/runs/:id/orders`: the heartbeat. Responds when the run is to be cancelled, or after `wait`. */
export const OrdersQuery = Type.Object({
  wait: Type.Optional(
    Type.Integer({
      description: `how long to wait, 0 (the default) to ${waitMaxSeconds} seconds`,
      minimum: 0,
      maximum: waitMaxSeconds,
    }),
  ),
})

export const Orders = Type.Object({
  cancel,
  kill: Type.Boolean({
    description:
      'whether to kill the run, without the steps that would still run after a cancellation',
  }),
})

/** `POST /runner/runs/:id/release`: returns the run to the queue. Responds with 204. */
export const ReleaseBody = Type.Object(
  {
    reason: Type.String({ description: 'a sentence that says why', maxLength: 1000 }),
    isLoss: Type.Boolean({
      description: 'whether the runner failed; such a run is retried a limited number of times',
    }),
  },
  closed,
)

/** `GET /runner/runs/:id/source`: commits with their trees and blobs. 422 when there is no such commit. */
export const SourceQuery = Type.Object({
  ref: Type.Optional(
    Type.String({
      description:
        'A branch, a tag, the full name of one of these, or the id of a commit; the commit of the run without it',
      minLength: 1,
      maxLength: 1024,
    }),
  ),
  depth: Type.Optional(
    Type.Integer({
      description:
        'number of commits from there on, 1 by default; 0 for all, with all branches and tags',
      minimum: 0,
      maximum: 999_999_999,
    }),
  ),
  tags: Type.Optional(Type.Boolean({ description: 'whether all tags are added' })),
})

/** The response: a line of JSON, a SourceHeader, then a pack, as in gitformat-pack(5). */
export const sourceContentType = 'application/octet-stream'

export type SourceHeader = {
  commit: string
  /** The full name of the branch or tag; empty if an id was given. */
  ref: string
  /** The branches and tags of the pack by their full names, also `ref`, which may be an annotated tag. */
  refs: Record<string, string>
  /** The commits whose parents are left out. */
  shallow: string[]
}

export type ClaimBody = Static<typeof ClaimBody>
export type Claim = Static<typeof Claim>
export type Reported = Static<typeof Reported>
export type ReleaseBody = Static<typeof ReleaseBody>
export type Orders = Static<typeof Orders>
