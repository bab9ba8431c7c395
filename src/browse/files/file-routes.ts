import { isUtf8 } from 'node:buffer'
import { type Static, Type } from 'typebox'
import { Problem } from '#base/problem.ts'
import { closed, field } from '#base/schema-options.ts'
import { type LfsPointer, mayBeLfsPointer, parseLfsPointer } from '#git/objects/lfs-pointers.ts'
import { gitCommands } from '#git/process/commands.ts'
import { prefersType } from '#http/headers.ts'
import { named } from '#http/named-schemas.ts'
import { jsonContentType, route } from '#http/route.ts'
import { lfsObjectNotFound } from '#repositories/lfs-objects.ts'
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
import { streamChunks, streamOutput } from './output-stream.ts'

const mib = 1024 * 1024
const contentMaxBytes = mib
const cachedMaxBytes = 8 * mib

const jsonType = 'application/json'
const plainType = 'text/plain'
const textType = `${plainType}; charset=utf-8`
const bytesType = 'application/octet-stream'

type FoundFile = {
  commit: string
  path: RawPath
  mode: string
  id: string
  size: number
  lfs: (LfsPointer & { isStored: boolean }) | null
}

/** The route of files. */
export function fileRoutes(parts: BrowseParts) {
  const { git, store, lfsObjects, reused, settings } = parts
  const { pool, cached, commits, trees, revisions } = parts
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
    const file = { commit, path, mode, id, size: blob.bytes }
    return { ...file, lfs: await findLfsObject(repository, file) }
  }

  /** The object of Git LFS that a file names; null for one that is no pointer. */
  async function findLfsObject(
    repository: Repository,
    { mode, id, size }: Omit<FoundFile, 'lfs'>,
  ): Promise<FoundFile['lfs']> {
    if (mode === '120000' || !mayBeLfsPointer(size)) return null
    const pointer = parseLfsPointer((await readBlob(repository, id)).toString())
    if (!pointer) return null
    const stored = (await lfsObjects.sizesOf(repository.id, [pointer.oid])).get(pointer.oid)
    return { ...pointer, size: stored ?? pointer.size, isStored: stored !== undefined }
  }

  async function readFile(repository: Repository, file: FoundFile): Promise<Static<typeof File>> {
    const { commit, path, mode, id, size, lfs } = file
    const shown = { commit, ...toApiPath(path), mode, id, size, lfs }
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

  /** Also from a bucket: links to it would have neither the type of the content nor the rights of a session. */
  function streamObject({ id: repositoryId }: Repository, oid: string, signal: AbortSignal) {
    return streamChunks({ stallMs, signal }, async (ending, read) => {
      await using object = await lfsObjects.open({ repositoryId, oid })
      await read(object.read({ start: 0, bytes: object.size }, ending))
    })
  }

  return [
    route('GET', '/repos/:name/file', {
      operationId: 'getFile',
      tag: 'browse',
      summary: 'Get a file',
      description:
        'The bytes of a file; of a symbolic link, its target; of a file in Git LFS, its pointer, or with `lfs` the object. With `Accept: application/json`, JSON with the content as text or in base64, if it has at most 1 MiB.',
      permission: 'repo:read',
      find: openOfRoute(parts.repositories),
      isLongLived: true,
      isConditional: true,
      query: Type.Object({ ...RevisionQuery, ...FilePathQuery, ...LfsQuery }, closed),
      produces: textType,
      otherTypes: [bytesType],
      reply: { 200: field.text('The bytes of the file') },
      jsonReply: File,
      problems: [
        ...revisionProblems,
        'path_not_found',
        'lfs_object_not_found',
        ...taskProblems,
        'repository_damaged',
      ],
      handle: async ({ principal, found, query, header, setHeader, setType, ...context }) => {
        const { notModified, clientSignal } = context
        const file = await findFile(found, query.rev, toRawFilePath(query))
        const { commit, path, mode, id, size, lfs } = file
        if (prefersType(header('accept') ?? '', jsonType, [plainType, bytesType])) {
          setType(jsonContentType)
          const key = keyOf(['file', found.id, commit, path, lfs?.isStored ?? ''])
          if (notModified(key)) return undefined
          return cached(key, clientSignal(), () => readFile(found, file))
        }
        if (query.lfs && lfs) {
          if (!lfs.isStored) throw lfsObjectNotFound(lfs.oid)
          if (notModified(lfs.oid)) return undefined
          const { start, stream } = await streamObject(found, lfs.oid, clientSignal())
          setType(looksLikeUtf8(start) ? textType : bytesType)
          setHeader('content-length', String(lfs.size))
          return stream
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

const LfsQuery = {
  lfs: Type.Optional(
    Type.Boolean({
      description: 'Whether a pointer of Git LFS is replaced by the bytes of its object',
    }),
  ),
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
    lfs: field.orNull(
      Type.Object({
        oid: field.text('SHA-256 of the object'),
        size: field.integer('Size of the object in bytes'),
        isStored: field.boolean('Whether the repository has the object'),
      }),
      'The object of Git LFS of which the file is the pointer; null for other files',
    ),
    limits: field.texts('Limits that this response met'),
  }),
)
