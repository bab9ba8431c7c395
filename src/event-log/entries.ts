import type { Standing } from '../access/may.ts'
import type { listAllAfter, RepositoryAudience } from './event-log-store.ts'
import type { VisibleEventKind } from './event-visibility.ts'

type Row = Awaited<ReturnType<typeof listAllAfter>>[number]

/** An event of the log. */
export type EventEntry = Omit<Row, 'kind' | 'data'> & {
  kind: VisibleEventKind
  data: Record<string, unknown>
}

/** An event as clients get it. */
export type LoggedEvent = ReturnType<typeof toLoggedEvent>

export function toEntry(row: Row): EventEntry {
  // What was written by kind, as it was written.
  const [kind, data] = [row.kind as VisibleEventKind, JSON.parse(row.data) as EventEntry['data']]
  return { ...row, kind, data }
}

export function toLoggedEvent(entry: EventEntry, repoName: string | null) {
  const { seq, kind, repositoryId, actorId, actorUsername, createdAt, data } = entry
  const actor = { id: actorId, username: actorUsername }
  return { seq, kind, repositoryId, repoName, actor, createdAt, data }
}

/** How a username stands to a repository, if it is there still. */
export function standingIn(
  place: RepositoryAudience | undefined,
  username: string,
): Standing | undefined {
  if (!place) return undefined
  const { ownerUsername, collaborators } = place
  return { ownerUsername, isCollaborator: collaborators.has(username) }
}
