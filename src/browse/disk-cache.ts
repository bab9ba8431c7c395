import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { absentAs } from '#base/absence.ts'
import { isId } from '#base/ids.ts'

/**
 * Caches results of long work for repositories in files, one file a result. A key contains everything that its result
 * depends on, so entries never need invalidating. Damaged files are ignored.
 */
export type DiskCache = {
  load: (repositoryId: string, key: string) => Promise<Buffer | undefined>
  save: (repositoryId: string, key: string, content: Buffer) => Promise<void>
  /** Removes the files of repositories that are gone, and the oldest ones beyond the limits. */
  prune: () => Promise<void>
}

type Options = {
  /** The folder of the files, which has nothing else. */
  root: string
  /** Whether a repository is in place. */
  isInPlace: (repositoryId: string) => Promise<boolean>
  /** Larger results are not kept. */
  fileMaxBytes: number
  maxFilesPerRepository: number
  maxBytes?: number
}

const digestLength = 64
const newline = 0x0a
const absence = absentAs(undefined)

export function createDiskCache({
  root,
  isInPlace,
  fileMaxBytes,
  maxFilesPerRepository,
  maxBytes = 256 * 1024 * 1024,
}: Options): DiskCache {
  function pathOf(repositoryId: string, key: string): string {
    // An id from a corrupt database must not escape the root.
    if (!isId(repositoryId)) throw new Error(`"${repositoryId}" is not the id of a repository`)
    return join(root, repositoryId, digestOf(key).slice(0, 32))
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
    async load(repositoryId, key) {
      const path = pathOf(repositoryId, key)
      const { size = 0 } = (await stat(path).catch(absence)) ?? {}
      if (size === 0 || size > digestLength + 1 + fileMaxBytes) return undefined
      const file = await readFile(path).catch(absence)
      const content = file && contentOf(file, key)
      // The newest are kept: a file is as new as its last use.
      const now = new Date()
      if (content) await utimes(path, now, now).catch(absence)
      return content
    },

    async save(repositoryId, key, content) {
      if (content.length > fileMaxBytes) return
      const path = pathOf(repositoryId, key)
      const draft = `${path}.${randomUUID()}`
      await mkdir(join(root, repositoryId), { recursive: true, mode: 0o700 })
      try {
        const file = Buffer.concat([Buffer.from(`${digestOf(key, content)}\n`), content])
        await writeFile(draft, file, { mode: 0o600 })
        await rename(draft, path)
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

function contentOf(file: Buffer, key: string): Buffer | undefined {
  const content = file.subarray(digestLength + 1)
  const digest = file.toString('latin1', 0, digestLength)
  return file[digestLength] === newline && digest === digestOf(key, content) ? content : undefined
}

function digestOf(key: string, content?: Buffer): string {
  const hash = createHash('sha256').update(key)
  if (content) hash.update('\n').update(content)
  return hash.digest('hex')
}

async function namesIn(folder: string): Promise<string[]> {
  return (await readdir(folder).catch(absence)) ?? []
}
