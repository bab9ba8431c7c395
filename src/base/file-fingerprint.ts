import { lstatSync, type Stats } from 'node:fs'

/**
 * Identifies a state of a file or folder. An unsettled fingerprint does not: it was taken so soon after a change that
 * another change could have the same timestamp. Git calls such an index entry "racily clean".
 */
export type Fingerprint = {
  kind: 'file' | 'folder' | 'other'
  ino: number
  size: number
  mtimeMs: number
  ctimeMs: number
  isSettled: boolean
}

// Timestamps are of the kernel's last tick, usually up to 10 ms old, but older on a virtual machine without a free processor.
const settlesAfterMs = 500
// Some file systems store whole seconds, or even pairs of them.
const settlesAfterCoarselyMs = 3000

/** Reads the fingerprint of a path; undefined when nothing is there. Does not follow symbolic links. */
export function readFingerprint(path: string | Buffer): Fingerprint | undefined {
  const at = Date.now()
  const stats = lstatSync(path, { throwIfNoEntry: false })
  return stats && toFingerprint(stats, at)
}

/** Makes a fingerprint of `stats`; `at` is a time in milliseconds taken before they were read. */
export function toFingerprint(stats: Stats, at: number): Fingerprint {
  const { ino, size, mtimeMs, ctimeMs } = stats
  const after = ctimeMs % 1000 === 0 ? settlesAfterCoarselyMs : settlesAfterMs
  const kind = stats.isFile() ? 'file' : stats.isDirectory() ? 'folder' : 'other'
  return { kind, ino, size, mtimeMs, ctimeMs, isSettled: at - ctimeMs > after }
}

/** Whether the content is certainly unchanged between two fingerprints. */
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
