import { type Static, Type } from 'typebox'
import { objectIdPattern } from '#base/object-id.ts'
import { closed, field, textForm } from '#base/schema-options.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, readDefaultBranch, readRefs, tagPrefix } from '#git/refs/refs.ts'
import { named } from '#http/named-schemas.ts'
import { linkToNext } from '#http/pagination.ts'
import { route, type SerializedJson } from '#http/route.ts'
import { openOfRoute, openProblems } from '#repositories/open-repository.ts'
import { protectionsOf } from '#repositories/protection-rules.ts'
import type { Repository } from '#repositories/repositories.ts'
import { BriefCommit, toBriefCommit } from '../brief-commits.ts'
import { type BrowseParts, revisionProblems, taskProblems } from '../browse-parts.ts'
import { keyOf, LinkedPage, ProvisionalJson, unlessKnown } from '../cached-responses.ts'
import { fromNameCursor, pageQuery, toNameCursor } from '../page-queries.ts'
import { findCommit } from '../revisions.ts'
import { createAheadBehind } from './ahead-behind.ts'
import type { AheadBehind } from './count-sides.ts'
import { createRefPages } from './ref-pages.ts'
import { type RefPage, refFilterMaxLength, refOrders } from './ref-selection.ts'
import { createTagsById } from './tags-by-id.ts'

/** The routes of branches and tags. */
export function refRoutes(parts: BrowseParts) {
  const { pool, tasks, cached, commits, protections, revisions } = parts
  const refPages = createRefPages(parts)
  const compareWithBase = createAheadBehind({ tasks })
  const tags = createTagsById()

  async function baseOf(repository: Repository, base: string | undefined) {
    if (base !== undefined) return (await findCommit(revisions, repository, base)).id
    const ref = branchPrefix + (await readDefaultBranch(repository.path))
    const id = (await readRefs(repository.path, [ref])).get(ref)
    return id === zeroId ? undefined : id
  }

  return [
    route('GET', '/repos/:name/branches', {
      operationId: 'listBranches',
      tag: 'browse',
      summary: 'List branches',
      description:
        'By name unless `order` says otherwise. `ahead` and `behind` are null where they were not known within a second, or there is no base: a later request knows more.',
      permission: 'repo:read',
      find: openOfRoute(parts.repositories),
      isConditional: true,
      query: Type.Object(
        {
          base: Type.Optional(
            Type.String({
              description:
                'The revision that branches are compared with; the default branch without it',
              maxLength: 1024,
            }),
          ),
          counts: Type.Optional(
            field.boolean(
              '`false` to leave out the comparison: `ahead` and `behind` are then null, and the response does not wait for them',
            ),
          ),
          ...RefQuery,
          ...pageQuery(defaultLimit),
        },
        closed,
      ),
      reply: { 200: Type.Array(Branch) },
      problems: [...revisionProblems, ...taskProblems],
      handle: async ({ principal, found, query, url, setHeader, notModified, clientSignal }) => {
        const objects = pool.of(found.path)
        const requester = { principal, repository: found, signal: clientSignal() }
        const [page, base, defaultBranch, protected_] = await Promise.all([
          refPages.page(requester, wantedOf(branchPrefix, query)),
          baseOf(found, query.base),
          readDefaultBranch(found.path),
          protections.listInForce(found),
        ])
        const isCompared = base !== undefined && query.counts !== false
        const key = keyOf([
          ...['branches', found.id, JSON.stringify([page, protected_]), defaultBranch],
          isCompared && base,
        ])
        if (notModified(key)) return undefined
        const response = await cached(key, clientSignal(), async (signal) => {
          const ids = [...new Set(page.refs.map(({ id }) => id))]
          const [compared, read] = await Promise.all([
            isCompared
              ? compareWithBase({ ...requester, signal }, base, ids)
              : new Map<string, AheadBehind>(),
            Promise.all(ids.map(async (id) => [id, await commits(objects, id)] as const)),
          ])
          const byId = new Map(read)
          const branches = page.refs.map(({ name, id }): Static<typeof Branch> => {
            const commit = byId.get(id)
            const shown = toRefName(name)
            const { ahead, behind } = compared.get(id) ?? { ahead: null, behind: null }
            return {
              ...shown,
              revision: shown.nameBase64 === undefined ? shown.name : id,
              id,
              commit: commit ? toBriefCommit(id, commit) : null,
              isDefault: shown.name === defaultBranch,
              isProtected: protectionsOf(branchPrefix + shown.name, protected_).length > 0,
              ahead,
              behind,
            }
          })
          const isComplete = ids.every((id) => byId.get(id) && (!isCompared || compared.has(id)))
          return toPage(branches, page, isComplete)
        })
        return respond(response, { query, url, setHeader, notModified })
      },
    }),

    route('GET', '/repos/:name/tags', {
      operationId: 'listTags',
      tag: 'browse',
      summary: 'List tags',
      description: 'By name unless `order` says otherwise.',
      permission: 'repo:read',
      find: openOfRoute(parts.repositories),
      isConditional: true,
      query: Type.Object({ ...RefQuery, ...pageQuery(defaultLimit) }, closed),
      reply: { 200: Type.Array(Tag) },
      problems: [...openProblems, ...taskProblems],
      handle: async ({ principal, found, query, url, setHeader, notModified, clientSignal }) => {
        const objects = pool.of(found.path)
        const requester = { principal, repository: found, signal: clientSignal() }
        const [page, protected_] = await Promise.all([
          refPages.page(requester, wantedOf(tagPrefix, query)),
          protections.listInForce(found),
        ])
        const names = page.refs.map(({ name }) => name)
        const branches = await refPages.existing(found.path, branchPrefix, names)
        const hidden = names.filter((name) => branches.has(name))
        const key = keyOf(['tags', found.id, JSON.stringify([page, protected_, hidden])])
        if (notModified(key)) return undefined
        const response = await cached(key, clientSignal(), async () => {
          const targets = await Promise.all(page.refs.map(({ id }) => tags(objects, id)))
          // An annotated tag has a date of its own.
          const lightweight = await Promise.all(
            page.refs.map(({ id }, index) =>
              targets[index]?.type === 'commit' ? commits(objects, id) : undefined,
            ),
          )
          const listed = page.refs.map(({ name, id }, index): Static<typeof Tag> => {
            const target = targets[index]
            const shown = toRefName(name)
            return {
              ...shown,
              revision:
                shown.nameBase64 !== undefined
                  ? (target?.commit ?? id)
                  : branches.has(name)
                    ? tagPrefix + shown.name
                    : shown.name,
              id,
              type: target?.type ?? 'missing',
              commit: target?.commit ?? null,
              tagger: target?.tagger ?? null,
              committedAt: dateOf(lightweight[index], id),
              message: target?.type === 'tag' ? target.message : null,
              signature: target?.signature ?? null,
              isProtected: protectionsOf(tagPrefix + shown.name, protected_).length > 0,
            }
          })
          return toPage(listed, page, !targets.includes(undefined))
        })
        return respond(response, { query, url, setHeader, notModified })
      },
    }),
  ]
}

const defaultLimit = 100

const dateOf = (commit: Parameters<typeof toBriefCommit>[1] | undefined, id: string) =>
  commit === undefined ? null : toBriefCommit(id, commit).at

const RefQuery = {
  filter: Type.Optional(
    Type.String({ description: 'A part of the name, in any case', maxLength: refFilterMaxLength }),
  ),
  order: Type.Optional(
    Type.Enum(refOrders, {
      description:
        '`version` for the highest version first: numbers in names count as such, and pre-releases follow their version; `name` without it',
    }),
  ),
  pointsAt: Type.Optional(
    Type.String({
      ...textForm(
        '1 to 100 whole ids of commits, separated by commas',
        `^${objectIdPattern}(,${objectIdPattern}){0,99}$`,
      ),
      description:
        'Up to 100 ids of commits, separated by commas: lists only those that point to one of them, and annotated tags that lead to one',
    }),
  ),
}

type PageQueryValues = Static<Type.TObject<typeof RefQuery>> & { limit?: number; cursor?: string }

function wantedOf(
  prefix: string,
  { limit = defaultLimit, cursor = '', pointsAt, filter, order }: PageQueryValues,
) {
  const after = fromNameCursor(cursor)
  return { prefix, limit, after, filter, order, pointsAt: pointsAt?.split(',') }
}

/** The response of a page; one without all of its objects or comparisons may be more complete later. */
function toPage(list: unknown[], { refs, hasMore }: RefPage, isComplete: boolean) {
  const last = refs.at(-1)
  const cursor = hasMore && last ? toNameCursor(last.name) : undefined
  return isComplete ? new LinkedPage(list, cursor) : new ProvisionalJson(list, cursor)
}

type Responding = {
  query: PageQueryValues
  url: string
  setHeader: (name: string, value: string) => void
  notModified: (entityTag: string) => boolean
}

/** Sends a page with a link to the next one. */
function respond(
  response: SerializedJson,
  { query: { limit = defaultLimit }, url, setHeader, notModified }: Responding,
): SerializedJson | undefined {
  const { nextCursor: cursor } = response
  if (cursor !== undefined) setHeader('link', linkToNext(url, { limit, cursor }))
  return unlessKnown(response, notModified)
}

function toRefName(raw: string): { name: string; nameBase64?: string } {
  const bytes = Buffer.from(raw, 'latin1')
  const name = bytes.toString('utf8')
  return Buffer.from(name, 'utf8').equals(bytes)
    ? { name }
    : { name, nameBase64: bytes.toString('base64') }
}

const refNameProperties = {
  name: field.text('Name'),
  revision: field.text(
    'What names it as a revision in other requests: its name; `refs/tags/<name>` for a tag with the name of a branch; an id if the name is not UTF-8',
  ),
  nameBase64: Type.Optional(field.text('The bytes of the name in base64, if it is not UTF-8')),
}

export const Branch = named(
  'Branch',
  Type.Object({
    ...refNameProperties,
    id: field.text('Id of its newest commit'),
    commit: field.orNull(BriefCommit, 'Its newest commit; null if that is damaged'),
    isDefault: field.boolean('Whether it is the default branch'),
    isProtected: field.boolean('Whether it is protected'),
    ahead: field.orNull(
      Type.Integer(),
      'Commits that the base does not have; null when not known yet',
    ),
    behind: field.orNull(
      Type.Integer(),
      'Commits of the base that it does not have; null when not known yet',
    ),
  }),
)

export const Tag = named(
  'Tag',
  Type.Object({
    ...refNameProperties,
    id: field.text('Id of its object'),
    type: field.text(
      '`tag` for an annotated tag; otherwise `commit`, `tree`, `blob`, or `missing`',
    ),
    commit: field.orNull(
      Type.String(),
      'Id of the commit to which it leads; null for tags of trees and blobs',
    ),
    tagger: field.orNull(
      Type.Object({
        name: Type.String(),
        email: Type.String(),
        at: Type.Integer(),
        timeZone: Type.String(),
      }),
      'Who made an annotated tag, and when',
    ),
    committedAt: field.orNull(
      Type.Integer(),
      'When the commit of a lightweight tag was made, in milliseconds since the Unix epoch; null for any other tag',
    ),
    message: field.orNull(
      Type.String(),
      'Message of an annotated tag without its signature, up to 16,384 characters',
    ),
    signature: Type.Union(
      [Type.Literal('openpgp'), Type.Literal('x509'), Type.Literal('ssh'), Type.Null()],
      { description: 'Format of the signature of an annotated tag, which is not verified' },
    ),
    isProtected: field.boolean('Whether it is protected'),
  }),
)
