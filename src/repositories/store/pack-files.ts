import { createHash } from 'node:crypto'
import { link, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { allOrNone, forEachConcurrently } from '#base/for-each-concurrently.ts'
import { newId } from '#base/ids.ts'
import type { Db } from '#database/schema.ts'
import type { S3 } from '../s3/s3.ts'
import { S3Error } from '../s3/s3-error.ts'
import { type LivePack, readInline } from './pack-store.ts'
import { storeUnavailable } from './store-error.ts'

/** The packs of the store as files in a folder of packs. */
export type PackFiles = {
  /** Reads packs into a folder; false when one is no longer where the list has it. */
  read: (db: Db, folder: string, packs: LivePack[]) => Promise<boolean>
}

const maxConcurrentReads = 8
// For object storage that shows new objects late.
const absencePatienceMs = 5000
const absencePauseMs = 200

export function createPackFiles(storage: Pick<S3, 'getToFile'>): PackFiles {
  async function readRows(db: Db, folder: string, packs: LivePack[]): Promise<boolean> {
    if (packs.length === 0) return true
    const rows = await readInline(
      db,
      packs.map(({ key }) => key),
    )
    const byKey = new Map(rows.map((row) => [row.key, row]))
    for (const pack of packs) {
      const row = byKey.get(pack.key)
      if (!row) return false
      await place(folder, pack, async (draft) => {
        for (const { type, sha256 } of filesOf(pack)) {
          const bytes = row[type] ?? Buffer.alloc(0)
          assertSame(sha256, createHash('sha256').update(bytes).digest('hex'), pack.key)
          await writeFile(`${draft}.${type}`, bytes, { mode: 0o400 })
        }
      })
    }
    return true
  }

  async function download(folder: string, packs: LivePack[], signal: AbortSignal): Promise<void> {
    await forEachConcurrently(maxConcurrentReads, packs, (pack) =>
      place(folder, pack, async (draft) => {
        const files = filesOf(pack)
        const got = files.map(
          ({ type, bytes }) =>
            (until: AbortSignal) =>
              getToFile(`${pack.key}.${type}`, `${draft}.${type}`, bytes, until),
        )
        const sums = await allOrNone(got, signal)
        for (const [index, { sha256 }] of files.entries()) {
          assertSame(sha256, sums[index] ?? '', pack.key)
        }
      }),
    )
  }

  async function getToFile(
    key: string,
    path: string,
    bytes: number,
    signal: AbortSignal,
  ): Promise<string> {
    const deadline = performance.now() + absencePatienceMs
    for (;;) {
      try {
        const { sha256 } = await storage.getToFile(key, path, bytes, { signal })
        return sha256
      } catch (error) {
        if (!(error instanceof S3Error)) throw error
        const isLate = error.code === 'absent' && performance.now() < deadline
        if (!isLate) throw storeUnavailable(error.message, error)
        await sleep(absencePauseMs, undefined, { signal })
      }
    }
  }

  return {
    async read(db, folder, packs) {
      const inline = packs.filter(({ isInline }) => isInline)
      const stored = packs.filter(({ isInline }) => !isInline)
      const [areThere] = await allOrNone([
        () => readRows(db, folder, inline),
        (signal) => download(folder, stored, signal),
      ])
      return areThere
    },
  }
}

/** The checksums of packs, and whether each has times of unreachable objects. */
export type PacksPresent = ReadonlyMap<string, boolean>

/** Lists the packs in a folder that have an index. */
export async function listPresent(folder: string): Promise<PacksPresent> {
  const names = new Set(await readdir(folder))
  const present = new Map<string, boolean>()
  for (const name of names) {
    const [, hash] = /^pack-([0-9a-f]{40,64})\.idx$/.exec(name) ?? []
    if (hash !== undefined && hasPack(names, hash))
      present.set(hash, names.has(`pack-${hash}.mtimes`))
  }
  return present
}

/** Whether a pack is among the names in a folder of packs, with its index. */
export function hasPack(names: ReadonlySet<string>, hash: string): boolean {
  return names.has(`pack-${hash}.idx`) && names.has(`pack-${hash}.pack`)
}

/** Whether a pack is among those present. One whose objects are no longer reachable may differ only in their times. */
export function isPresent(present: PacksPresent, { hash, mtimesBytes }: LivePack): boolean {
  return present.get(hash) === (mtimesBytes !== null)
}

/** Gives a folder the files of a pack of another one; false when that does not have it, or is on another disk. */
export async function linkPack(from: string, to: string, pack: LivePack): Promise<boolean> {
  try {
    for (const { type } of filesOf(pack)) {
      const name = `pack-${pack.hash}.${type}`
      await link(join(from, name), join(to, name))
    }
    return true
  } catch {
    for (const { type } of filesOf(pack)) {
      await rm(join(to, `pack-${pack.hash}.${type}`), { force: true })
    }
    return false
  }
}

/** Removes the times of a pack whose objects are reachable again. */
export function removeTimes(folder: string, hash: string): Promise<void> {
  return rm(join(folder, `pack-${hash}.mtimes`), { force: true })
}

/**
 * Removes packs whose objects are in others, or are no longer needed. A git that reads them finds their objects in those
 * others, like after `git repack -d`; it takes a multi-pack-index for complete, so that goes first.
 */
export async function removePacks(folder: string, hashes: ReadonlySet<string>): Promise<void> {
  const names = await readdir(folder)
  const indexes = names.filter((name) => name.startsWith('multi-pack-index'))
  // The index itself before its bitmap.
  for (const name of indexes.sort()) await rm(join(folder, name), { force: true })
  const files = names.filter((name) => {
    const [, hash] = /^pack-([0-9a-f]{40,64})\./.exec(name) ?? []
    return hash !== undefined && hashes.has(hash)
  })
  const inOrder = files.sort((a, b) => Number(b.endsWith('.idx')) - Number(a.endsWith('.idx')))
  for (const name of inOrder) await rm(join(folder, name), { force: true })
}

type PackFile = { type: 'pack' | 'mtimes' | 'idx'; bytes: number; sha256: string }

/** The files of a pack. Git uses it once it has an index, so that comes last. */
export function filesOf(pack: LivePack): PackFile[] {
  const { mtimesBytes, mtimesSha256 } = pack
  return [
    { type: 'pack', bytes: pack.packBytes, sha256: pack.packSha256 },
    ...(mtimesBytes !== null && mtimesSha256 !== null
      ? [{ type: 'mtimes' as const, bytes: mtimesBytes, sha256: mtimesSha256 }]
      : []),
    { type: 'idx', bytes: pack.idxBytes, sha256: pack.idxSha256 },
  ]
}

/** Fills the files of a pack under temporary names, then renames them. */
async function place(
  folder: string,
  pack: LivePack,
  fill: (draft: string) => Promise<void>,
): Promise<void> {
  const draft = join(folder, `tmp_svc_${newId()}`)
  try {
    await fill(draft)
    for (const { type } of filesOf(pack)) {
      await rename(`${draft}.${type}`, join(folder, `pack-${pack.hash}.${type}`))
    }
  } catch (error) {
    for (const { type } of filesOf(pack)) await rm(`${draft}.${type}`, { force: true })
    throw error
  }
}

function assertSame(expected: string, actual: string, key: string): void {
  if (actual === expected) return
  const error = new S3Error('corrupt', `${key} is damaged in the store`)
  throw storeUnavailable(error.message, error)
}
