import { isUtf8 } from 'node:buffer'
import { type Static, Type } from 'typebox'
import { Problem } from '#base/problem.ts'
import { closed, field } from '#base/schema-options.ts'
import { gitCommands } from '#git/process/commands.ts'
import { prefersType } from '#http/headers.ts'
import { named } from '#http/named-schemas.ts'
import { jsonContentType, route } from '#http/route.ts'
import { openOfRoute } from '#repositories/open-repository.ts'
import type { Repository } from '#repositories/repositories.ts'
import {
  FilePathQuery,
  pathProperties,
  type RawPath,
  toApiPath,
  toRawFilePath,
} from '../api-path.ts'
import { type BrowseParts, revisionProblems, taskProblems } from '../browse-parts.ts'
import { keyOf } from '../cached-responses.ts'
import { createGitTasks } from '../git-tasks.ts'
import { createObjectCache } from '../object-cache.ts'
import { commitUnreadable, findCommit, RevisionQuery } from '../revisions.ts'
import { isBinary, looksLikeUtf8 } from '../text-content.ts'
import { treeMode } from '../trees.ts'
import { streamOutput } from './output-stream.ts'

const mib = 1024 * 1024
const contentMaxBytes = mib
const cachedMaxBytes = 8 * mib

const jsonType = 'application/json'
const plainType = 'text/plain'
const textType = `${plainType}; charset=utf-8`
const bytesType = 'application/octet-stream'

type FoundFile = { commit: string; path: RawPath; mode: string; id: string; size: number }

/** The route of files. */
export function fileRoutes(parts: BrowseParts) {
  const { git, store, reused, settings, pool, cached, commits, trees, revisions } = parts
  // Downloads of slow clients do not take the permits of other requests.
  const tasks = createGitTasks({ git, store, reused, settings })
  const blobs = createObjectCache<Buffer>(
    {
      maxSize: cachedMaxBytes,
      maxEntrySize: cachedMaxBytes / 64,
      sizeCalculation: ({ length }) => 200 + length,
    },
    async (objects, id) => (await objects.read(id, contentMaxBytes))?.content,
  )
  const stallMs = settings.gitStallSeconds * 1000

  async function findFile(
    repository: Repository,
    rev: string | undefined,
    path: RawPath,
  ): Promise<FoundFile> {
    const objects = pool.of(repository.path)
    const { id: commit } = await findCommit(revisions, repository, rev)
    const tree = (await commits(objects, commit))?.tree
    if (tree === undefined) throw commitUnreadable(commit)
    const { mode, id } = await trees.find(objects, tree, path)
    if (mode === treeMode) throw notFile(path, 'a folder: list it as a tree')
    if (mode === '160000') throw notFile(path, `a submodule: commit ${id} of another repository`)
    const blob = await objects.find(id)
    if (blob?.type !== 'blob') throw damaged(id)
    return { commit, path, mode, id, size: blob.bytes }
  }

  async function readFile(repository: Repository, file: FoundFile): Promise<Static<typeof File>> {
    const { commit, path, mode, id, size } = file
    const shown = { commit, ...toApiPath(path), mode, id, size }
    if (size > contentMaxBytes) {
      const limits = [`Content of more than ${contentMaxBytes / mib} MiB is not in JSON.`]
      return { ...shown, isBinary: null, encoding: null, content: null, limits }
    }
    const content = await readBlob(repository, id)
    const isText = looksLikeUtf8(content) && isUtf8(content)
    const encoding = isText ? 'utf-8' : 'base64'
    return {
      ...shown,
      isBinary: isBinary(content),
      encoding,
      content: content.toString(isText ? 'utf8' : 'base64'),
      limits: [],
    }
  }

  async function readBlob({ path }: Repository, id: string): Promise<Buffer> {
    const content = await blobs(pool.of(path), id)
    if (!content) throw damaged(id)
    return content
  }

  return [
    route('GET', '/repos/:name/file', {
      operationId: 'getFile',
      tag: 'browse',
      summary: 'Get a file',
      description:
        'The bytes of a file; of a symbolic link, its target. With `Accept: application/json`, JSON with the content as text or in base64, if it has at most 1 MiB.',
      permission: 'repo:read',
      find: openOfRoute(parts.repositories),
      isLongLived: true,
      isConditional: true,
      query: Type.Object({ ...RevisionQuery, ...FilePathQuery }, closed),
      produces: textType,
      otherTypes: [bytesType],
      reply: { 200: field.text('The bytes of the file') },
      jsonReply: File,
      problems: [...revisionProblems, 'path_not_found', ...taskProblems, 'repository_damaged'],
      handle: async ({ principal, found, query, header, setHeader, setType, ...context }) => {
        const { notModified, clientSignal } = context
        const file = await findFile(found, query.rev, toRawFilePath(query))
        const { commit, path, mode, id, size } = file
        if (prefersType(header('accept') ?? '', jsonType, [plainType, bytesType])) {
          setType(jsonContentType)
          const key = keyOf(['file', found.id, commit, path])
          if (notModified(key)) return undefined
          return cached(key, clientSignal(), () => readFile(found, file))
        }
        if (notModified(`${id}-${mode}`)) return undefined
        if (size <= contentMaxBytes) {
          const content = await readBlob(found, id)
          setType(looksLikeUtf8(content) ? textType : bytesType)
          return content
        }
        const requester = { principal, repository: found, signal: clientSignal() }
        const command = gitCommands.printBlob(found.path, id)
        const { start, stream } = await streamOutput(tasks, requester, { command, stallMs })
        setType(looksLikeUtf8(start) ? textType : bytesType)
        setHeader('content-length', String(size))
        return stream
      },
    }),
  ]
}

function notFile(path: RawPath, kind: string): Problem {
  return new Problem('path_not_found', `"${toApiPath(path).path}" is ${kind}.`)
}

function damaged(id: string): Problem {
  return new Problem(
    'repository_damaged',
    `The file ${id} is missing or damaged; contact the administrator of the server.`,
  )
}

export const File = named(
  'File',
  Type.Object({
    commit: field.text('Id of the commit'),
    ...pathProperties,
    mode: field.text('`100644` file, `100755` executable file, `120000` symbolic link'),
    id: field.text('Id of the blob'),
    size: field.integer('Size in bytes'),
    isBinary: field.orNull(
      Type.Boolean(),
      'Whether it is binary as Git defines it: a NUL in its first 8,000 bytes, and no mark of UTF-16; null without content',
    ),
    encoding: field.orNull(
      Type.Enum(['utf-8', 'base64']),
      'How the content is encoded; null without content',
    ),
    content: field.orNull(Type.String(), 'Content; null for a file of more than 1 MiB'),
    limits: field.texts('Limits that this response met'),
  }),
)
