import { createHash, randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pathToFileURL } from 'node:url'
import type {
  ArchiveContent,
  NewArtifact,
  RunStorage,
} from '#actions/workflow-engine/run-storage.ts'
import { ignoreAbsence } from '#base/absence.ts'

type Options = {
  /** For caches, which last from run to run. */
  caches: string
  /** For artifacts: those of this run only, not what was there before. */
  artifacts: string
  /** Bytes of all caches: beyond them, those saved first are removed. */
  cachesMaxBytes: number
}

type KeptCache = { key: string; version: string; savedAt: number; size: number }

const archiveEnd = '.tar.zst'
const highWaterMark = 256 * 1024

/** Keeps caches and artifacts in folders of this machine. Artifacts are files `NAME.tar.zst`. */
export function createFolderStorage({ caches, artifacts, cachesMaxBytes }: Options): RunStorage {
  /** The sizes of the run's artifacts by their names. */
  const saved = new Map<string, number>()
  const pathOf = (key: string, version: string) =>
    join(
      caches,
      createHash('sha256')
        .update(JSON.stringify([version, key]))
        .digest('hex'),
    )

  async function listCaches(): Promise<KeptCache[]> {
    const names = (await readdir(caches).catch(ignoreAbsence)) ?? []
    const texts = await Promise.all(
      names
        .filter((name) => name.endsWith('.json'))
        .map((name) => readFile(join(caches, name), 'utf8').catch(ignoreAbsence)),
    )
    // Written below.
    const found = texts.flatMap((text) => (text === undefined ? [] : [JSON.parse(text)]))
    return (found as KeptCache[]).sort((one, other) => other.savedAt - one.savedAt)
  }

  async function prune(): Promise<void> {
    let bytes = 0
    for (const { key, version, size } of await listCaches()) {
      bytes += size
      if (bytes <= cachesMaxBytes) continue
      for (const end of ['.json', archiveEnd]) await rm(pathOf(key, version) + end, { force: true })
    }
  }

  return {
    async findCache({ keys, version, lookupOnly, signal }) {
      const fitting = (await listCaches()).filter((one) => one.version === version)
      for (const key of keys) {
        const exact = fitting.find((one) => one.key === key)
        const found = exact ?? fitting.find((one) => one.key.startsWith(key))
        if (!found) continue
        const path = pathOf(found.key, version) + archiveEnd
        return {
          key: found.key,
          content: lookupOnly ? undefined : contentOf(path, signal),
        }
      }
      return undefined
    },

    async saveCache({ key, version, content, signal }) {
      const path = pathOf(key, version)
      const { size } = await store(path + archiveEnd, content, signal)
      const kept: KeptCache = { key, version, savedAt: Date.now(), size }
      await store(`${path}.json`, Readable.from([JSON.stringify(kept)]), signal)
      await prune()
      return 'saved'
    },

    listArtifacts: async () => [...saved].map(([name, size]) => ({ name, size })),

    artifactContent: (name, signal) => contentOf(join(artifacts, name + archiveEnd), signal),

    async saveArtifact({ name, overwrite, content, signal }: NewArtifact) {
      const path = join(artifacts, name + archiveEnd)
      if (saved.has(name) && !overwrite) {
        content.destroy()
        throw new Error(`This run has an artifact ${name} already; "overwrite: true" replaces it.`)
      }
      const stored = await store(path, content, signal)
      saved.set(name, stored.size)
      return { ...stored, id: randomUUID(), url: pathToFileURL(path).href }
    },
  }
}

function contentOf(path: string, signal: AbortSignal): ArchiveContent {
  return async (write) => {
    for await (const bytes of createReadStream(path, { signal, highWaterMark })) await write(bytes)
  }
}

/** Writes a file that appears when it is whole. */
async function store(
  path: string,
  content: NodeJS.ReadableStream,
  signal: AbortSignal,
): Promise<{ size: number; sha256: string }> {
  const part = `${path}.${randomUUID()}.part`
  await mkdir(join(path, '..'), { recursive: true, mode: 0o700 })
  const hash = createHash('sha256')
  let size = 0
  const measured = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      size += chunk.length
      done(null, chunk)
    },
  })
  try {
    await pipeline(content, measured, createWriteStream(part, { mode: 0o600 }), { signal })
    await rename(part, path)
    return { size, sha256: hash.digest('hex') }
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
}
