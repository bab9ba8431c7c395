import type { PushRow } from '#database/schema.ts'

type Fields = Pick<PushRow, 'id' | 'repositoryId' | 'updates' | 'judgedAt'> & Partial<PushRow>

/** The row of a push over HTTP that has not finished. */
export function toPushRow(fields: Fields): PushRow {
  return {
    actorId: 'token',
    actorUsername: 'ada',
    finishedAt: null,
    via: 'http',
    keptUntil: null,
    undoes: null,
    formerDefaultBranch: null,
    defaultBranch: null,
    version: null,
    address: null,
    allowedLeaks: null,
    runOptions: null,
    landing: null,
    bytes: 0,
    ...fields,
  }
}
