import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbsence } from '../base/absence.ts'
import { isId } from '../base/ids.ts'
import type { RawPath } from './api-path.ts'
import type { LastCommitsByName } from './last-commit-walk.ts'

/** The last commits of all entries of a folder, in some commits that have the same folder. */
type StoredLastCommits = { commits: string[]; byName: LastCommitsByName }

/**
 * Keeps the newest last commits of folders in files, one a folder. They are by ids of objects, and so never wrong; a
 * damaged file is ignored.
 */
export type LastCommitFiles = {
  load: (repositoryId: string, path: RawPath) => Promise<StoredLastCommits | undefined>
  save: (repositoryId: string, path: RawPath, answers: StoredLastCommits) => Promise<void>
  /** Removes the files of repositories that are gone, and the oldest ones beyond the limits. */
  prune: () => Promise<void>
}

type Options = {
  dataDir: string
  /** Whether a repository is in place. */
  isInPlace: (repositoryId: string) => Promise<boolean>
  maxBytes?: number
  maxFilesPerRepository?: number
}

const version = 1
const fileMaxBytes = 1024 * 1024

export function createLastCommitFiles({
  dataDir,
  isInPlace,
  maxBytes = 256 * 1024 * 1024,
  maxFilesPerRepository = 64,
}: Options): LastCommitFiles {
  const root = join(dataDir, 'browse', 'last-commits')

  function pathOf(repositoryId: string, path: RawPath): string {
    // An id from a corrupt database must not escape the root.
    if (!isId(repositoryId)) throw new Error(`"${repositoryId}" is not the id of a repository`)
    return join(root, repositoryId, `${digestOf(path).slice(0, 32)}.json`)
  }

  async function filesIn(
    repositoryId: string,
  ): Promise<{ path: string; at: number; bytes: number }[]> {
    const folder = join(root, repositoryId)
    const files = (await namesIn(folder)).map(async (name) => {
      const path = join(folder, name)
      const found = await stat(path).catch(absence)
      return found ? [{ path, at: found.mtimeMs, bytes: found.size }] : []
    })
    return (await Promise.all(files)).flat().sort((one, other) => other.at - one.at)
  }

  return {
    async load(repositoryId, path) {
      const file = pathOf(repositoryId, path)
      const { size = 0 } = (await stat(file).catch(absence)) ?? {}
      if (size === 0 || size > fileMaxBytes) return undefined
      const text = await readFile(file, 'utf8').catch(absence)
      const found = text === undefined ? undefined : parse(text, path)
      // The newest are kept: a file is as new as its last use.
      const now = new Date()
      if (found) await utimes(file, now, now).catch(absence)
      return found
    },

    async save(repositoryId, path, answers) {
      const text = serialize(path, answers)
      if (Buffer.byteLength(text) > fileMaxBytes) return
      const file = pathOf(repositoryId, path)
      const draft = `${file}.${randomUUID()}`
      await mkdir(join(root, repositoryId), { recursive: true, mode: 0o700 })
      try {
        await writeFile(draft, text, { mode: 0o600 })
        await rename(draft, file)
      } catch (error) {
        await rm(draft, { force: true })
        throw error
      }
      for (const { path: old } of (await filesIn(repositoryId)).slice(maxFilesPerRepository))
        await rm(old, { force: true })
    },

    async prune() {
      const all: Awaited<ReturnType<typeof filesIn>> = []
      for (const id of await namesIn(root)) {
        if (isId(id) && (await isInPlace(id))) all.push(...(await filesIn(id)))
        else await rm(join(root, id), { recursive: true, force: true })
      }
      let bytes = 0
      for (const file of all.sort((one, other) => other.at - one.at)) {
        bytes += file.bytes
        if (bytes > maxBytes) await rm(file.path, { force: true })
      }
    },
  }
}

type Content = {
  version: number
  path: string
  commits: string[]
  ids: string[]
  names: string[]
  of: number[]
}

/** A digest, and the answers as JSON. Names are bytes (latin1), which JSON has as characters. */
function serialize(path: RawPath, { commits, byName }: StoredLastCommits): string {
  const ids = [...new Set(byName.values())]
  const indexes = new Map(ids.map((id, index) => [id, index]))
  const names = [...byName.keys()]
  const of = [...byName.values()].map((id) => indexes.get(id) ?? 0)
  const content: Content = { version, path, commits, ids, names, of }
  const json = JSON.stringify(content)
  return `${digestOf(json)}\n${json}\n`
}

function parse(text: string, path: RawPath): StoredLastCommits | undefined {
  const [digest = '', json = ''] = text.split('\n')
  if (digest !== digestOf(json)) return undefined
  // Its digest shows that `serialize` made it, if perhaps that of another version.
  const content = JSON.parse(json) as Content
  if (content.version !== version || content.path !== path) return undefined
  const { commits, ids, names, of } = content
  return {
    commits,
    byName: new Map(names.map((name, index) => [name, ids[of[index] ?? 0] ?? ''])),
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

async function namesIn(folder: string): Promise<string[]> {
  return (await readdir(folder).catch(absence)) ?? []
}

function absence(error: unknown): undefined {
  if (!isAbsence(error)) throw error
}
