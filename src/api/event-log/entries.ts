import type { Standing } from '#access/may.ts'
import type { listEventsAfter } from '#events/event-store.ts'
import type { RepositoryAudience } from '#repositories/collaborator-store.ts'
import type { VisibleEventKind } from './event-visibility.ts'

type Row = Awaited<ReturnType<typeof listEventsAfter>>[number]

/** An event of the log, with its data parsed. */
export type EventEntry = Omit<Row, 'kind' | 'data'> & {
  kind: VisibleEventKind
  data: Record<string, unknown>
}

/** An event as the API returns it. */
export type LoggedEvent = ReturnType<typeof toLoggedEvent>

export function toEntry(row: Row): EventEntry {
  // `publish` wrote the row, so its kind determines the type of its data.
  const [kind, data] = [row.kind as VisibleEventKind, JSON.parse(row.data) as EventEntry['data']]
  return { ...row, kind, data }
}

export function toLoggedEvent(entry: EventEntry, repoName: string | null) {
  const { seq, kind, repositoryId, actorId, actorUsername, createdAt, data } = entry
  const actor = { id: actorId, username: actorUsername }
  return { seq, kind, repositoryId, repoName, actor, createdAt, data }
}

/** The standing of a username in a repository; undefined when the repository was deleted. */
export function standingIn(
  audience: RepositoryAudience | undefined,
  username: string,
): Standing | undefined {
  if (!audience) return undefined
  const { id, ownerUsername, namespaceId, visibility, roles } = audience
  return { id, ownerUsername, namespaceId, visibility, role: roles.get(username) }
}
