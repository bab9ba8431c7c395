import type { App } from '#app.ts'
import { printable, toDate, toTable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import type { AuditEntry } from '#events/audit/audit-log.ts'
import { auditActions } from '#events/audit/record.ts'
import { goesOn, timeOf } from '../client/operations/option-values.ts'
import { localPrincipal } from './local.ts'
import type { Terminal } from './terminal.ts'
import { UsageError } from './usage-error.ts'

export type AuditOptions = {
  username?: string
  credential?: string
  action?: string[]
  repository?: string
  via?: string
  address?: string
  since?: string
  until?: string
  repositoryId?: string
  limit?: string
  json?: boolean
}

const defaultLimit = '30'
const maxLimit = 1_000_000
const pageSize = 1000
const detailsMaxLength = 100

/** `svc audit` */
export async function listAudit(
  { auditLog, repositories }: App,
  options: AuditOptions,
  { out, err }: Terminal,
): Promise<void> {
  const { username, credential, action: actions, repository, via, address, json } = options
  for (const action of actions ?? []) requireAction(action)
  const limit = parseLimit(options.limit ?? defaultLimit)
  const found = repository && (await repositories.find(localPrincipal, repository, 'repo:read'))
  const filter = {
    username,
    credential,
    actions,
    repositoryId: found ? found.id : options.repositoryId,
    via,
    address,
    since: timeOf(options.since, '--since'),
    until: timeOf(options.until, '--until'),
  }
  const all: AuditEntry[] = []
  // One more shows whether the list goes on.
  for (let before: number | undefined; all.length <= limit; ) {
    const page = { before, limit: Math.min(pageSize, limit + 1 - all.length) }
    const { entries, next } = await auditLog.list(localPrincipal, filter, page)
    all.push(...entries)
    if (next === undefined) break
    before = next
  }
  const shown = all.slice(0, limit)
  out(json ? toSafeJson(shown) : toText(shown))
  if (all.length > limit && !json) err(`${goesOn(limit)}\n`)
}

function toText(entries: AuditEntry[]): string {
  const rows = entries.map(({ seq, createdAt, actor, via, address, action, repoName, data }) => [
    String(seq),
    toDate(createdAt),
    actor.username,
    via,
    address ?? '',
    action,
    repoName ?? '',
    toDetails(data),
  ])
  return toTable([
    ['NUMBER', 'TIME', 'USER', 'VIA', 'ADDRESS', 'ACTION', 'REPOSITORY', 'DETAILS'],
    ...rows,
  ])
}

function toDetails(data: object): string {
  const parts = Object.entries(data).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  const text = printable(parts.join(' '))
  return text.length > detailsMaxLength ? `${text.slice(0, detailsMaxLength - 1)}…` : text
}

function requireAction(action: string): void {
  if (auditActions.includes(action)) return
  throw new UsageError(`There is no action "${action}"; there are ${auditActions.join(', ')}.`)
}

function parseLimit(text: string): number {
  const limit = Number(text)
  if (Number.isInteger(limit) && limit >= 1 && limit <= maxLimit) return limit
  throw new UsageError(`--limit takes 1 to ${maxLimit}; not "${text}".`)
}
