import { readFileSync } from 'node:fs'

// The database, logs, listeners, the spawn helper and what the event loop needs.
const reserved = 128
// Its socket, the pipes of a git process or the files that it reads, and the socket of a refused one.
const perConnection = 5

/** Returns how many connections this process can accept so that each has the file descriptors for its work. */
export function acceptableConnections(limits = readLimits()): number {
  const [, soft = ''] = /^Max open files +(\d+)/m.exec(limits) ?? []
  if (soft === '') return Number.POSITIVE_INFINITY
  return Math.max(1, Math.floor((Number(soft) - reserved) / perConnection))
}

// proc(5), /proc/pid/limits
function readLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return ''
  }
}
