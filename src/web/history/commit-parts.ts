import { trimEndOf } from '#base/trim-end.ts'
import { orNoMessage, shortId } from '../display-text.ts'
import type { Links } from '../links.ts'
import type { SharedContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { hasMisreadHost } from '../render/document-links.ts'
import { type Content, type Html, html } from '../render/html.ts'

export type ShownCommit = OperationValues['listCommits'][number]

export function idsOf(commits: readonly ShownCommit[]): string[] {
  return commits.map(({ id }) => id)
}

/** The first line of a message, and the rest. */
export function splitMessage(message: string): { subject: string; body: string } {
  const text = message.trimStart()
  const end = text.indexOf('\n')
  if (end === -1) return { subject: orNoMessage(text.trimEnd()), body: '' }
  return { subject: text.slice(0, end).trimEnd(), body: text.slice(end + 1).trim() }
}

/** A link to a commit by its short id. */
export function commitLink(to: Links, name: string, id: string): Html {
  return html`<a class="mono" href="${to.commit(name, id)}" title="${id}">${shortId(id)}</a>`
}

const linkPattern = /https?:\/\/[^\s<>"'`]{1,2000}|\b[0-9a-f]{7,64}\b/g

/** The ids in a message that may be those of commits. */
function idsIn(message: string): string[] {
  const ids = [...message.matchAll(linkPattern)].map(([match]) => match)
  return [...new Set(ids)].filter(
    (id) => /^[0-9a-f]+$/.test(id) && /[a-f]/.test(id) && /\d/.test(id),
  )
}

/** A message with links to addresses, and to commits by their ids. */
export function linkedText(text: string, commits: ReadonlyMap<string, string>): Html {
  const parts: Content[] = []
  let from = 0
  for (const { 0: match, index } of text.matchAll(linkPattern)) {
    const target = match.startsWith('http') ? trimEndOf(match, '.,;:!?)]}') : match
    const href = target.startsWith('http') ? target : commits.get(target)
    if (href === undefined || hasMisreadHost(href)) continue
    parts.push(text.slice(from, index))
    parts.push(
      target.startsWith('http')
        ? html`<a class="linked" href="${href}" rel="nofollow noreferrer">${target}</a>`
        : html`<a class="linked mono" href="${href}">${target}</a>`,
    )
    from = index + target.length
  }
  return html`${parts}${text.slice(from)}`
}

const maxLinkedIds = 10

/** The addresses of the commits whose ids are in a message. */
export async function findLinkedCommits(
  { tryRead, to, params }: SharedContext,
  message: string,
): Promise<Map<string, string>> {
  const ids = idsIn(message).slice(0, maxLinkedIds)
  const found = await Promise.all(
    // Digits that several ids begin with are no link either.
    ids.map((id) => tryRead('getCommit', { params: { id } }).catch(() => undefined)),
  )
  const links = new Map<string, string>()
  for (const [index, commit] of found.entries()) {
    const id = ids[index]
    if (commit && id !== undefined && commit.id.startsWith(id))
      links.set(id, to.commit(params.name ?? '', commit.id))
  }
  return links
}

type ListedRuns = OperationValues['listRuns']
export type RunsByCommit = ReadonlyMap<string, ListedRuns[number]>

/** The newest run of each commit, among the last ones; empty for those who may not see runs. */
export async function recentRuns({ tryRead, isLoggedIn }: SharedContext): Promise<RunsByCommit> {
  const runs = isLoggedIn ? await tryRead('listRuns', { query: { limit: 100 } }) : undefined
  const byCommit = new Map<string, ListedRuns[number]>()
  for (const run of runs ?? []) if (!byCommit.has(run.commit)) byCommit.set(run.commit, run)
  return byCommit
}
