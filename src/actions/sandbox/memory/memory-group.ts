import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { basename, isAbsolute, join } from 'node:path'
import { codeOf } from '#base/error-code.ts'
import { pollUntil, signal } from '../processes.ts'

/** Where control groups with a memory limit can be created: cgroups(7). */
export type MemoryController = {
  version: 'cgroup v1' | 'cgroup v2'
  /** The parent of the jobs' groups. */
  parent: string
}

/**
 * A control group for the processes of a job. The kernel counts all their memory, even what no process has mapped:
 * buffers of sockets and pipes, and memory files in transit through a socket.
 */
export type MemoryGroup = {
  folder: string
  /** A process joins the group by writing 0 to this file; writing another process's id moves that process. */
  procsFile: string
  /** How many of its processes the kernel has killed for the limit. Throws when the group no longer exists. */
  countKills: () => number
  processIds: () => number[]
  /** Kills all its processes, without waiting for their end. */
  kill: () => void
  /** Kills all its processes, waits for their end, and removes the group. */
  remove: () => Promise<void>
}

// In version 1, kernel memory of TCP has its own limit: this part of the whole.
const tcpShare = 1 / 8

/** Creates a group that limits memory including swap. */
export function makeMemoryGroup(
  { version, parent }: MemoryController,
  name: string,
  maxBytes: number,
): MemoryGroup {
  const folder = join(parent, name)
  const set = (file: string, value: string | number) =>
    writeFileSync(join(folder, file), String(value), { flag: 'r+' })
  mkdirSync(folder)
  try {
    if (version === 'cgroup v2') {
      set('memory.max', maxBytes)
      // A step must not continue with some of its processes killed.
      set('memory.oom.group', 1)
      ignoreMissing(() => set('memory.swap.max', 0))
    } else {
      set('memory.limit_in_bytes', maxBytes)
      ignoreMissing(() => set('memory.memsw.limit_in_bytes', maxBytes))
      ignoreMissing(() => set('memory.kmem.tcp.limit_in_bytes', Math.floor(maxBytes * tcpShare)))
    }
    return openMemoryGroup(folder)
  } catch (error) {
    rmdirSync(folder)
    throw error
  }
}

/** Opens an existing group. */
export function openMemoryGroup(folder: string): MemoryGroup {
  const procsFile = join(folder, 'cgroup.procs')
  const group: MemoryGroup = {
    folder,
    procsFile,
    countKills: () => killsIn(readEvents(folder)),
    processIds: () => readProcessIds(procsFile),
    kill() {
      // Version 2 since Linux 5.14 kills all processes with one write.
      if (killAll(join(folder, 'cgroup.kill'))) return
      for (const pid of group.processIds()) signal(pid, 'SIGKILL')
    },
    remove: () =>
      pollUntil(() => {
        group.kill()
        return isRemoved(folder)
      }),
  }
  return group
}

export function isGroupNamed(path: string, name: string): boolean {
  return isAbsolute(path) && basename(path) === name && existsSync(join(path, 'cgroup.procs'))
}

/** The processes of a group, except those outside this process's PID namespace, which are listed as 0. */
export function readProcessIds(procsFile: string): number[] {
  try {
    const lines = readFileSync(procsFile, 'utf8').split('\n')
    return lines.map(Number).filter((pid) => pid > 0)
  } catch {
    // The group has been removed.
    return []
  }
}

function readEvents(folder: string): string {
  try {
    return readFileSync(join(folder, 'memory.events'), 'utf8')
  } catch {
    return readFileSync(join(folder, 'memory.oom_control'), 'utf8')
  }
}

// Both versions have a line `oom_kill 0`.
function killsIn(events: string): number {
  return Number(/^oom_kill (\d+)$/m.exec(events)?.[1] ?? 0)
}

function killAll(file: string): boolean {
  try {
    writeFileSync(file, '1', { flag: 'r+' })
    return true
  } catch {
    return false
  }
}

function isRemoved(folder: string): boolean {
  try {
    rmdirSync(folder)
    return true
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return true
    // Dead processes still count for a moment.
    if (code === 'EBUSY') return false
    throw error
  }
}

function ignoreMissing(write: () => void): void {
  try {
    write()
  } catch (error) {
    const code = codeOf(error)
    // The kernel does not account for swap or TCP memory.
    if (code !== 'ENOENT' && code !== 'EOPNOTSUPP' && code !== 'ENOTSUP') throw error
  }
}
