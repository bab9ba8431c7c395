import type { RunRow } from '../database/schema.ts'

/** A run as its runner holds it. */
export type HeldRun = Pick<
  RunRow,
  'id' | 'repositoryId' | 'attempt' | 'ref' | 'commitId' | 'createdAt' | 'kept' | 'actorUsername'
> & { tokenHash: string }
