import { lstatSync, type Stats } from 'node:fs'

/**
 * What tells a state of a file or folder from another one. An unsettled one does not: it was looked at so soon
 * after a change that a further one could bear the same time. Git calls such an index "racily clean".
 */
export type Fingerprint = {
  kind: 'file' | 'folder' | 'other'
  ino: number
  size: number
  mtimeMs: number
  ctimeMs: number
  isSettled: boolean
}

// Times are those of the kernel's last tick, at most 10 ms ago, but on a virtual machine that waited for a processor.
const settlesAfterMs = 500
// Where they are whole seconds, there may be two of them to a tick.
const coarselyAfterMs = 3000

/** How a path looks now; undefined when nothing is there. Symbolic links are not followed. */
export function readFingerprint(path: string | Buffer): Fingerprint | undefined {
  const at = Date.now()
  const stats = lstatSync(path, { throwIfNoEntry: false })
  return stats && toFingerprint(stats, at)
}

/** What was found at a time, in milliseconds, that was taken before. */
export function toFingerprint(stats: Stats, at: number): Fingerprint {
  const { ino, size, mtimeMs, ctimeMs } = stats
  const after = ctimeMs % 1000 === 0 ? coarselyAfterMs : settlesAfterMs
  const kind = stats.isFile() ? 'file' : stats.isDirectory() ? 'folder' : 'other'
  return { kind, ino, size, mtimeMs, ctimeMs, isSettled: at - ctimeMs > after }
}

/** Whether what was read after the first look is certainly what would be read after the second. */
export function isUnchanged(
  before: Fingerprint | undefined,
  now: Fingerprint | undefined,
): boolean {
  if (!before || !now) return before === now
  return (
    before.isSettled &&
    before.ino === now.ino &&
    before.ctimeMs === now.ctimeMs &&
    before.mtimeMs === now.mtimeMs &&
    before.size === now.size
  )
}
