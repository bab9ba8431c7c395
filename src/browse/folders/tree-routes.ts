import { type Static, Type } from 'typebox'
import { Problem } from '#base/problem.ts'
import { closed, field } from '#base/schema-options.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import { entryCount } from '#git/objects/tree-buffer.ts'
import { named } from '#http/named-schemas.ts'
import { linkToNext } from '#http/pagination.ts'
import { route } from '#http/route.ts'
import { invalid, ofQuery } from '#http/validation.ts'
import { openOfRoute } from '#repositories/open-repository.ts'
import type { Repository } from '#repositories/repositories.ts'
import { PathQuery, pathProperties, type RawPath, toApiPath, toRawPath } from '../api-path.ts'
import { BriefCommit, toBriefCommit } from '../brief-commits.ts'
import { type BrowseParts, revisionProblems } from '../browse-parts.ts'
import { keyOf, LinkedPage, ProvisionalJson, unlessKnown } from '../cached-responses.ts'
import { searchedMaxEntries } from '../last-commits/last-commits.ts'
import { createObjectCache } from '../object-cache.ts'
import { pageQuery } from '../page-queries.ts'
import { commitUnreadable, findCommit, RevisionQuery } from '../revisions.ts'
import { treeMode } from '../trees.ts'
import { type ListedEntry, listedPathMaxBytes, listTree, type Position } from './list-tree.ts'

const defaultLimit = 1000
const maxSizes = 50_000

type Listed = {
  repository: Repository
  commit: string
  path: RawPath
  isRecursive: boolean
  from: Position
  limit: number
}

/** The route of folders. */
export function treeRoutes(parts: BrowseParts) {
  const { pool, cached, commits, trees, lastCommits, revisions } = parts
  // Between two versions of a folder, few of its files change. By size, because `max` would allocate all at once.
  const sizes = createObjectCache<number>(
    { maxSize: maxSizes, sizeCalculation: () => 1 },
    async (objects, id) => (await objects.find(id))?.bytes,
  )

  /** The last commits of entries, by name. */
  async function lastCommitsOf(objects: ObjectReader, listed: Listed, tree: string) {
    const { repository, commit, path, isRecursive } = listed
    if (isRecursive) return undefined
    if (entryCount(await trees.open(objects, tree)) > searchedMaxEntries) return 'limit'
    return lastCommits.of({ repository, objects, commit, path, tree })
  }

  async function listFolder(listed: Listed) {
    const { repository, commit, path, isRecursive, from, limit } = listed
    const objects = pool.of(repository.path)
    const tree = (await commits(objects, commit))?.tree
    if (tree === undefined) throw commitUnreadable(commit)
    const folder = await trees.find(objects, tree, path)
    if (folder.mode !== treeMode) throw notFolder(path)
    const wanted = { id: folder.id, path, isRecursive, from, limit }
    const [page, last] = await Promise.all([
      listTree(trees, objects, wanted),
      lastCommitsOf(objects, listed, folder.id),
    ])
    if (!page) throw invalidCursor()
    const found = last === 'limit' ? undefined : last
    const [sizeOf, commitOf] = await Promise.all([
      sizesOf(objects, page.entries),
      commitsOf(objects, page.entries, found?.byName),
    ])
    const entries = page.entries.map((entry) => toEntry(entry, sizeOf, commitOf))
    const limits = [
      ...(page.hasOmitted ? [omittedPaths] : []),
      ...(last === 'limit' ? [unsearchedFolder] : []),
    ]
    const nextCursor = page.next ? toCursor(commit, page.next) : undefined
    const value: Static<typeof Tree> = {
      commit,
      ...toApiPath(path),
      id: folder.id,
      entries,
      lastCommitsComplete: isRecursive ? null : found?.isComplete === true,
      limits,
      nextCursor: nextCursor ?? null,
    }
    return found?.isComplete === false
      ? new ProvisionalJson(value, nextCursor)
      : new LinkedPage(value, nextCursor)
  }

  /** The sizes of files, by their ids. */
  function sizesOf(objects: ObjectReader, entries: readonly ListedEntry[]) {
    const ids = entries.filter(({ mode }) => hasSize(mode)).map(({ id }) => id)
    return findAll(ids, (id) => sizes(objects, id))
  }

  /** The last commits of entries, by their names. */
  async function commitsOf(
    objects: ObjectReader,
    entries: readonly ListedEntry[],
    lastIds: ReadonlyMap<string, string> | undefined,
  ) {
    const ids = entries.map(({ name }) => lastIds?.get(name)).filter((id) => id !== undefined)
    const byId = await findAll(ids, (id) => commits(objects, id))
    return (name: string) => {
      const id = lastIds?.get(name)
      const commit = id === undefined ? undefined : byId.get(id)
      return id === undefined || commit === undefined ? null : toBriefCommit(id, commit)
    }
  }

  return [
    route('GET', '/repos/:name/tree', {
      operationId: 'getTree',
      tag: 'browse',
      summary: 'List a folder',
      description:
        'In the order of Git. The pages of a listing are all of the commit of the first one. Commits that last changed the entries are searched for a moment; with `lastCommitsComplete` false, a later request has more of them.',
      permission: 'repo:read',
      find: openOfRoute(parts.repositories),
      isConditional: true,
      query: Type.Object(
        {
          ...RevisionQuery,
          ...PathQuery,
          recursive: Type.Optional(
            field.boolean('whether to list what is below, too, without last commits'),
          ),
          ...pageQuery(defaultLimit),
        },
        closed,
      ),
      reply: { 200: Tree },
      problems: [...revisionProblems, 'path_not_found', 'git_limit_exceeded', 'repository_damaged'],
      handle: async ({ found, query, url, setHeader, notModified, clientSignal }) => {
        const path = toRawPath(query)
        const { cursor, limit = defaultLimit, recursive: isRecursive = false } = query
        const { commit: rev = query.rev, from } = fromCursor(cursor)
        const { id: commit } = await findCommit(revisions, found, rev)
        const key = keyOf(['tree', found.id, commit, path, isRecursive, limit, ...from])
        if (notModified(key)) return undefined
        const listed = { repository: found, commit, path, isRecursive, from, limit }
        const page = await cached(key, clientSignal(), () => listFolder(listed))
        if (page.nextCursor !== undefined)
          setHeader('link', linkToNext(url, { limit, cursor: page.nextCursor }))
        return unlessKnown(page, notModified)
      },
    }),
  ]
}

function toEntry(
  { name, path, mode, id }: ListedEntry,
  sizeOf: ReadonlyMap<string, number>,
  commitOf: (name: string) => Static<typeof BriefCommit> | null,
) {
  return {
    name: toApiPath(name).path,
    ...toApiPath(path),
    mode: mode.padStart(6, '0'),
    type: typeOf(mode),
    id,
    size: hasSize(mode) ? (sizeOf.get(id) ?? null) : null,
    lastCommit: commitOf(name),
  }
}

function hasSize(mode: string): boolean {
  const type = typeOf(mode)
  return type === 'file' || type === 'symlink'
}

/** Finds something of each of some objects, which may be there at once. */
async function findAll<T>(
  ids: readonly string[],
  find: (id: string) => T | undefined | Promise<T | undefined>,
): Promise<ReadonlyMap<string, T>> {
  const found = new Map<string, T>()
  await Promise.all(
    new Set(ids)
      .values()
      .map((id) => {
        const value = find(id)
        if (!(value instanceof Promise)) {
          if (value !== undefined) found.set(id, value)
          return undefined
        }
        return value.then((later) => {
          if (later !== undefined) found.set(id, later)
        })
      })
      .filter((pending) => pending !== undefined),
  )
  return found
}

function typeOf(mode: string): 'file' | 'folder' | 'symlink' | 'submodule' {
  switch (mode) {
    case treeMode:
      return 'folder'
    case '120000':
      return 'symlink'
    case '160000':
      return 'submodule'
    default:
      return 'file'
  }
}

/** The commit, so that all pages are of one, and the position. */
function toCursor(commit: string, position: Position): string {
  return `${commit}-${position.join('.')}`
}

/** Throws `invalid_request`. */
function fromCursor(cursor: string | undefined): { commit?: string; from: Position } {
  if (cursor === undefined) return { from: [] }
  const [, commit, position = ''] = /^([0-9a-f]{40,64})-(\d{1,8}(?:\.\d{1,8})*)$/.exec(cursor) ?? []
  if (commit === undefined) throw invalidCursor()
  return { commit, from: position.split('.').map(Number) }
}

function invalidCursor(): Problem {
  const detail = 'must be the cursor in the `Link` header of the previous page.'
  return invalid([ofQuery('cursor', detail)])
}

function notFolder(path: RawPath): Problem {
  return new Problem('path_not_found', `"${toApiPath(path).path}" is not a folder.`)
}

const toThousands = (value: number) => value.toLocaleString('en-US')

const omittedPaths = `Entries whose paths have more than ${toThousands(listedPathMaxBytes)} bytes are left out.`
const unsearchedFolder = `Last commits are not searched in folders of more than ${toThousands(searchedMaxEntries)} entries.`

export const Tree = named(
  'Tree',
  Type.Object({
    commit: field.text('Id of the commit'),
    ...pathProperties,
    id: field.text('Id of the tree'),
    entries: Type.Array(
      Type.Object({
        name: field.text('Name in the folder'),
        ...pathProperties,
        mode: field.text(
          '`100644` file, `100755` executable file, `040000` folder, `120000` symbolic link, `160000` submodule',
        ),
        type: Type.Enum(['file', 'folder', 'symlink', 'submodule'], {
          description: 'Type by its mode; an executable file is a `file`',
        }),
        id: field.text('Id of the object; of a commit elsewhere for a submodule'),
        size: field.orNull(
          Type.Integer(),
          'Size in bytes of files and symbolic links; otherwise null',
        ),
        lastCommit: field.orNull(
          BriefCommit,
          'The commit that last changed it; null when it is not known yet',
        ),
      }),
    ),
    lastCommitsComplete: field.orNull(
      Type.Boolean(),
      'Whether all last commits are known; null in a recursive listing',
    ),
    limits: field.texts('Limits that this response met'),
    nextCursor: field.orNull(Type.String(), 'The cursor of the next page; null at the end'),
  }),
)
