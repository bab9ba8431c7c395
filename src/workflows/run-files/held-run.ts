import type { RunRow } from '#database/schema.ts'

/** A run as its runner holds it. */
export type HeldRun = Pick<
  RunRow,
  | 'id'
  | 'number'
  | 'repositoryId'
  | 'attempt'
  | 'ref'
  | 'commitId'
  | 'createdAt'
  | 'kept'
  | 'actorUsername'
  | 'isRestricted'
> & { tokenHash: string }

/** The address of a run: of its page, or in the API of a server without pages. */
export type UrlOfRun = (repository: { name: string }, run: Pick<HeldRun, 'id' | 'number'>) => string
