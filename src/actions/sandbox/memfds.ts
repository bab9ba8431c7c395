import { readdirSync, readlinkSync, statSync } from 'node:fs'

const blockBytes = 512

/** Bytes of the memory files, memfd_create(2), that processes hold open; each file counts once. */
export function memfdBytes(proc: string, pids: readonly number[]): number {
  const blocks = new Map<string, number>()
  for (const pid of pids) {
    for (const path of openFiles(`${proc}/${pid}/fd`)) {
      try {
        if (!readlinkSync(path).startsWith('/memfd:')) continue
        const stat = statSync(path)
        blocks.set(`${stat.dev} ${stat.ino}`, stat.blocks)
      } catch {
        // It has been closed.
      }
    }
  }
  return [...blocks.values()].reduce((all, count) => all + count, 0) * blockBytes
}

function openFiles(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => `${folder}/${name}`)
  } catch {
    // The process has ended.
    return []
  }
}
