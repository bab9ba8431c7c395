import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'

type MemoryOptions = {
  proc: string
  pids: readonly number[]
  limit: number
  /** Bytes of shared memory that are there whether or not a process has them mapped. */
  kept: number
}

/**
 * Bytes of memory that processes take together, apart from what they have of files, which can be read again.
 * Memory that several share is counted for each of them, unless that comes to more than `limit`: then it is
 * counted exactly, which takes longer.
 */
export async function memoryOf({ proc, pids, limit, kept }: MemoryOptions): Promise<number> {
  const statuses = pids.map((pid) => readOrNothing(`${proc}/${pid}/status`))
  const own = sum(statuses.map((text) => kibOf(text, /^(?:RssAnon|VmSwap|VmPTE):/))) * 1024
  const shared = sum(statuses.map((text) => kibOf(text, /^RssShmem:/))) * 1024
  const rough = own + Math.max(shared, kept)
  if (rough <= limit) return rough
  let exactOwn = 0
  let exactShared = 0
  for (const pid of pids) {
    const text = await readFile(`${proc}/${pid}/smaps_rollup`, 'utf8').catch(() => '')
    exactOwn += kibOf(text, /^(?:Pss_Anon|SwapPss):/) * 1024
    exactShared += kibOf(text, /^Pss_Shmem:/) * 1024
    if (exactOwn + Math.max(exactShared, kept) > limit) break
  }
  return exactOwn + Math.max(exactShared, kept)
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

function readOrNothing(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // The process has ended.
    return ''
  }
}
