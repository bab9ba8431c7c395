import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** The environment variable that marks the git processes of a server, and their children. */
export const ownerVariable = 'SVC_GIT_OF'

const pollIntervalMs = 5

/** Kills the marked processes of servers that are gone, and waits for their end (proc(5)). Returns their number. */
export async function endOrphans(...owners: string[]): Promise<number> {
  const ended = new Set<number>()
  for (;;) {
    const orphans = await processesOf(owners)
    if (orphans.length === 0) return ended.size
    for (const pid of orphans) {
      ended.add(pid)
      kill(pid)
    }
    await sleep(pollIntervalMs)
  }
}

async function processesOf(owners: string[]): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const marks = owners.map((owner) => `\0${ownerVariable}=${owner}\0`)
  const found = await Promise.all(
    // Processes that have just ended, or belong to another user, are unreadable.
    pids.map((pid) => readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')),
  )
  return pids.filter((_, index) => marks.some((mark) => `\0${found[index]}`.includes(mark)))
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // ESRCH: ended already.
  }
}
