import { type Static, Type } from 'typebox'
import { holds } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { idPattern } from '#base/ids.ts'
import { closed, field } from '#base/schema-options.ts'
import type { Db } from '#database/schema.ts'
import { branchPrefix, readDefaultBranch, readRefs } from '#git/refs/refs.ts'
import { named } from '#http/named-schemas.ts'
import { cursorForm, linkToNext } from '#http/pagination.ts'
import { route } from '#http/route.ts'
import { listImportTimes } from '#repositories/imported-repository-store.ts'
import type { Repositories } from '#repositories/repositories.ts'
import { VisibilityField } from '#repositories/repository-schemas.ts'
import { type BriefRun, countPushesIn, listNewestRuns } from './activity-store.ts'
import { BriefCommit, toBriefCommit } from './brief-commits.ts'
import type { BrowseParts } from './browse-parts.ts'

const weekMs = 7 * 24 * 60 * 60 * 1000
const weeks = 13
const shownRuns = 13
const maxLimit = 50
/** How long commits are read; a later request has the rest. */
const commitsMs = 150
const maxConcurrentReads = 4

type Dependencies = Pick<BrowseParts, 'pool' | 'commits' | 'clock'> & {
  db: Db
  repositories: Pick<Repositories, 'open' | 'listByPush'>
}

/** The route of what happens in repositories. */
export function activityRoutes({ db, repositories, pool, commits, clock }: Dependencies) {
  async function newestCommit(principal: Principal, name: string) {
    const { path } = await repositories.open(principal, name, 'repo:read')
    const ref = branchPrefix + (await readDefaultBranch(path))
    const id = (await readRefs(path, [ref])).get(ref)
    const commit = id === undefined ? undefined : await commits(pool.of(path), id)
    return id !== undefined && commit ? toBriefCommit(id, commit) : undefined
  }

  /** The newest commits of repositories, as far as they are known soon. */
  async function newestCommits(principal: Principal, names: readonly string[]) {
    const found = new Map<string, Static<typeof BriefCommit>>()
    const deadline = performance.now() + commitsMs
    const reading = forEachConcurrently(maxConcurrentReads, names, async (name) => {
      if (performance.now() > deadline) return
      // An empty, damaged or just deleted repository must not hide the others.
      const commit = await newestCommit(principal, name).catch(() => undefined)
      if (commit) found.set(name, commit)
    })
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, commitsMs)
    })
    await Promise.race([reading, late])
    clearTimeout(timer)
    return new Map(found)
  }

  return [
    route('GET', '/activity', {
      operationId: 'listActivity',
      tag: 'repositories',
      summary: 'List repositories with their activity',
      description:
        'Lists the repositories that the token can see, those with the last push first, each with its pushes and its newest runs.',
      permission: 'repo:read',
      allowsLimited: true,
      query: Type.Object(
        {
          filter: Type.Optional(
            Type.String({
              description: 'a part of the name or the description, in upper or lower case',
              maxLength: 200,
            }),
          ),
          limit: Type.Optional(
            Type.Integer({
              description: `the page size, 1 to ${maxLimit}, which is also the default`,
              minimum: 1,
              maximum: maxLimit,
            }),
          ),
          cursor: Type.Optional(
            Type.String({
              ...cursorForm(`^\\d{1,16}\\.${idPattern}$`),
              maxLength: 50,
            }),
          ),
        },
        closed,
      ),
      reply: { 200: Type.Array(RepositoryActivity) },
      handle: async ({ principal, query, url, setHeader }) => {
        const { filter, limit = maxLimit, cursor } = query
        const rows = await repositories.listByPush(principal, { filter, cursor, limit: limit + 1 })
        const page = rows.slice(0, limit)
        const last = page.at(-1)
        if (rows.length > limit && last) {
          const at = last.pushedAt ?? last.createdAt
          setHeader('link', linkToNext(url, { limit, cursor: `${at}.${last.id}` }))
        }
        const ids = page.map(({ id }) => id)
        const now = clock.now()
        const starts = Array.from({ length: weeks }, (_, week) => now - (weeks - week) * weekMs)
        const undescribed = page.filter(
          ({ description, pushedAt, state }) =>
            description === '' && pushedAt !== null && state === 'ready',
        )
        const neverPushed = page.filter(({ pushedAt }) => pushedAt === null).map(({ id }) => id)
        const [pushes, runs, lastCommits, imports] = await Promise.all([
          countPushesIn(db, ids, starts),
          holds(principal, 'workflow:read')
            ? listNewestRuns(db, ids, shownRuns)
            : (undefined as Map<string, BriefRun[]> | undefined),
          newestCommits(
            principal,
            undescribed.map(({ name }) => name),
          ),
          listImportTimes(db, neverPushed),
        ])
        return page.map(
          ({
            id,
            name,
            description,
            createdAt,
            pushedAt,
            state,
            visibility,
            protectedBranches,
          }) => ({
            ...{ id, name, description, createdAt, pushedAt, state, visibility, protectedBranches },
            importedAt: imports.get(id) ?? null,
            lastCommit: lastCommits.get(name) ?? null,
            pushes: pushes.get(id) ?? starts.map(() => 0),
            runs: runs === undefined ? null : (runs.get(id) ?? []),
          }),
        )
      },
    }),
  ]
}

/** A repository with its activity. */
export const RepositoryActivity = named(
  'RepositoryActivity',
  Type.Object({
    id: field.text('Opaque id, which a rename does not change'),
    name: field.text('Unique name'),
    description: field.text('What it is about; may be empty'),
    createdAt: field.time('When it was created'),
    pushedAt: field.orNull(
      Type.Integer(),
      'When the last push was received, in milliseconds since the Unix epoch; null when there was none',
    ),
    importedAt: field.orNull(
      Type.Integer(),
      'When it was imported, in milliseconds since the Unix epoch; null for any other repository, and after the first push',
    ),
    state: Type.Enum(['ready', 'importing', 'failed'], {
      description: '`importing` during an import, then `ready`',
    }),
    visibility: VisibilityField,
    protectedBranches: field.texts('Protected branches and patterns'),
    lastCommit: field.orNull(
      BriefCommit,
      'The newest commit of the default branch of a repository without a description; null when it is not known yet',
    ),
    pushes: Type.Array(Type.Integer(), {
      description: `Number of pushes in each of the last ${weeks} weeks, oldest first`,
    }),
    runs: field.orNull(
      Type.Array(
        Type.Object({
          number: field.integer('Number of the run in its repository'),
          status: Type.Enum(['queued', 'running', 'completed'], {
            description: '`queued`, `running` or `completed`',
          }),
          conclusion: field.orNull(
            Type.Enum(['success', 'failure', 'cancelled', 'timed_out', 'skipped']),
            'How it ended; null until it has completed',
          ),
        }),
      ),
      `The newest ${shownRuns} runs, oldest first; null without the permission workflow:read`,
    ),
  }),
)
