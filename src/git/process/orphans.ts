import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** The variable that tells of every git process, and what it starts, which server's it is. */
export const ownerVariable = 'SVC_GIT_OF'

const pauseMs = 5

/**
 * Ends the processes of servers that are gone, with all that they started, and waits until they have
 * ended (proc(5)). Returns how many there were.
 */
export async function endOrphans(...owners: string[]): Promise<number> {
  const ended = new Set<number>()
  for (;;) {
    const orphans = await processesOf(owners)
    if (orphans.length === 0) return ended.size
    for (const pid of orphans) {
      ended.add(pid)
      kill(pid)
    }
    await sleep(pauseMs)
  }
}

async function processesOf(owners: string[]): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const marks = owners.map((owner) => `\0${ownerVariable}=${owner}\0`)
  const found = await Promise.all(
    // A process that has just ended, or is somebody else's, cannot be read.
    pids.map((pid) => readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')),
  )
  return pids.filter((_, index) => marks.some((mark) => `\0${found[index]}`.includes(mark)))
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // ESRCH: it has ended.
  }
}
