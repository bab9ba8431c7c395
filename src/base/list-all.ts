import { setImmediate as yieldToOthers } from 'node:timers/promises'

const pageLength = 500

/** A requested page of a list that is ordered by id: at most `limit` items after an id. */
export type PageRequest = { after: string; limit: number }

/** Reads all of a list that is ordered by id, in pages. Other events are handled in between: SQLite reads at once. */
export async function listAll<T extends { id: string }>(
  after: string,
  list: (page: PageRequest) => Promise<T[]>,
): Promise<T[]> {
  const all: T[] = []
  for (;;) {
    const page = await list({ after: all.at(-1)?.id ?? after, limit: pageLength })
    all.push(...page)
    if (page.length < pageLength) return all
    await yieldToOthers()
  }
}
