import { statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { linkOrNothing, namesIn, readOrNothing } from '../processes.ts'

type MemoryOptions = {
  proc: string
  pids: readonly number[]
  limit: number
  /** Bytes of shared memory that exist whether or not a process has mapped them. */
  unmappedBytes: number
}

/**
 * Bytes of memory that processes use together, without the page cache of files. An estimate that counts shared memory
 * once per process; only if it exceeds `limit` is the exact value computed, which takes longer.
 */
export async function memoryOf({
  proc,
  pids,
  limit,
  unmappedBytes,
}: MemoryOptions): Promise<number> {
  const statuses = pids.map((pid) => readOrNothing(`${proc}/${pid}/status`))
  const own = sum(statuses.map((text) => kibOf(text, /^(?:RssAnon|VmSwap|VmPTE):/))) * 1024
  const shared = sum(statuses.map((text) => kibOf(text, /^RssShmem:/))) * 1024
  const estimate = own + Math.max(shared, unmappedBytes)
  if (estimate <= limit) return estimate
  let exactOwn = 0
  let exactShared = 0
  for (const pid of pids) {
    const text = await readFile(`${proc}/${pid}/smaps_rollup`, 'utf8').catch(() => '')
    exactOwn += kibOf(text, /^(?:Pss_Anon|SwapPss):/) * 1024
    exactShared += kibOf(text, /^Pss_Shmem:/) * 1024
    if (exactOwn + Math.max(exactShared, unmappedBytes) > limit) break
  }
  return exactOwn + Math.max(exactShared, unmappedBytes)
}

// proc(5): `RssAnon:      1234 kB`.
function kibOf(text: string, names: RegExp): number {
  return sum(
    text
      .split('\n')
      .filter((line) => names.test(line))
      .map((line) => Number(/^\w+:\s*(\d+) kB/.exec(line)?.[1] ?? 0)),
  )
}

function sum(numbers: number[]): number {
  return numbers.reduce((all, number) => all + number, 0)
}

const blockBytes = 512

/** Bytes of the memory files, memfd_create(2), that processes hold open; each file counts once. */
export function memfdBytes(proc: string, pids: readonly number[]): number {
  const blocks = new Map<string, number>()
  for (const pid of pids) {
    const folder = `${proc}/${pid}/fd`
    for (const path of namesIn(folder).map((name) => `${folder}/${name}`)) {
      if (!linkOrNothing(path).startsWith('/memfd:')) continue
      try {
        const stat = statSync(path)
        blocks.set(`${stat.dev} ${stat.ino}`, stat.blocks)
      } catch {
        // It has been closed.
      }
    }
  }
  return [...blocks.values()].reduce((all, count) => all + count, 0) * blockBytes
}
