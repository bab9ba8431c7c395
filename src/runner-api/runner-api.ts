import { type Static, Type } from 'typebox'
import type { Plan } from '../workflow-engine/plan.ts'
import { EntrySchema } from './entry-schema.ts'
import { reportMaxEntries, waitMaxSeconds } from './report-limits.ts'

// What a runner and the server say to each other, as JSON over HTTP. A runner claims with a token that has the
// permission `runner`; all that follows it asks with the run's own token, which is good for this attempt alone,
// and for as long as it lasts. To such a request 401, 404 and 409 say that the run is not the runner's any more.

const closed = { additionalProperties: false } as const

/** `POST /runner/claim`: asks for a run, and waits for one. Answers 200 with a Claim, or 204 when none came. */
export const ClaimBody = Type.Object(
  {
    name: Type.String({ description: 'what the runner is called', minLength: 1, maxLength: 200 }),
    version: Type.String({ description: 'the version of its program', maxLength: 100 }),
    labels: Type.Array(Type.String({ description: 'a label', minLength: 1, maxLength: 100 }), {
      description: 'up to 100 labels for `runs-on`',
      maxItems: 100,
    }),
    isolation: Type.Unsafe<'bubblewrap' | 'none'>({
      type: 'string',
      enum: ['bubblewrap', 'none'],
      description: '`bubblewrap` or `none`: what its steps are kept in',
    }),
    waitSeconds: Type.Integer({
      description: `how long to wait, 0 to ${waitMaxSeconds} seconds`,
      minimum: 0,
      maximum: waitMaxSeconds,
    }),
  },
  closed,
)

/** A run that the runner has until its lease is over; each report and each look for orders renews that. */
export const Claim = Type.Object({
  runToken: Type.String({ description: "the run's own token" }),
  leaseSeconds: Type.Integer({
    description: 'seconds without a request after which the run is given to another runner',
  }),
  plan: Type.Unsafe<Plan>({ type: 'object', description: 'all that is needed to execute it' }),
})

/** `POST /runner/runs/:id/report`: tells what happened, in order. */
export const ReportBody = Type.Object(
  {
    first: Type.Integer({
      description: 'the number of the first entry, counted over the attempt from 0',
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

/** The answer to a report. Entries that the server has already are not taken again. */
export const Reported = Type.Object({
  next: Type.Integer({ description: 'the number of the entry that is expected next' }),
  cancel,
})

/** `GET /runner/runs/:id/orders`: the heartbeat. Answers as soon as there is an order, else when the time is over. */
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
      'whether it is to end at once, without the steps that would still run after a cancellation',
  }),
})

/** `POST /runner/runs/:id/release`: hands the run back to the queue. Answers 204. */
export const ReleaseBody = Type.Object(
  {
    reason: Type.String({ description: 'a sentence that says why', maxLength: 1000 }),
    isLoss: Type.Boolean({
      description: 'whether the runner could not go on with it, which is not tried for ever',
    }),
  },
  closed,
)

/** `GET /runner/runs/:id/source`: the commit with its trees and blobs, nothing more, as a pack. 422 when it is gone. */
export const sourceContentType = 'application/x-git-packed-objects'

export type ClaimBody = Static<typeof ClaimBody>
export type Claim = Static<typeof Claim>
export type Reported = Static<typeof Reported>
export type ReleaseBody = Static<typeof ReleaseBody>
export type Orders = Static<typeof Orders>
