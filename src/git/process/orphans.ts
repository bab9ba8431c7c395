import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** The environment variable that marks the git processes of a server, and their children. */
export const ownerVariable = 'SVC_GIT_OF'

const pollIntervalMs = 5

/** Kills the marked processes of servers that are gone, and waits for their end (proc(5)). Returns their number. */
export async function endOrphans(...owners: string[]): Promise<number> {
  const ended = new Set<number>()
  for (;;) {
    const orphans = processesOf(owners)
    if (orphans.length === 0) return ended.size
    for (const pid of orphans) {
      ended.add(pid)
      kill(pid)
    }
    await sleep(pollIntervalMs)
  }
}

// Synchronously: a file of /proc is read in microseconds, where a promise for each process takes longer.
function processesOf(owners: string[]): number[] {
  const marks = owners.map((owner) => `\0${ownerVariable}=${owner}\0`)
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      const environment = `\0${environmentOf(pid)}`
      return marks.some((mark) => environment.includes(mark))
    })
    .map(Number)
}

function environmentOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8')
  } catch {
    // Processes that have just ended, or belong to another user, are unreadable.
    return ''
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // ESRCH: ended already.
  }
}
