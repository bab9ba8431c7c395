import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { basename, isAbsolute, join } from 'node:path'
import { codeOf } from '../base/error-code.ts'
import { signal } from './processes.ts'
import { untilOver } from './running-process.ts'

/** Where control groups that limit memory can be made: cgroups(7). */
export type MemoryController = {
  version: 'cgroup v1' | 'cgroup v2'
  /** The group below which the groups of jobs are made. */
  parent: string
}

/**
 * A control group for the processes of a job. The kernel counts all memory that they cause, whether or not a process
 * has it mapped: files in memory that are on their way through a socket, buffers of sockets and pipes.
 */
export type MemoryGroup = {
  folder: string
  /** A process joins the group by writing 0 to this file, or is moved there by its id. */
  procsFile: string
  /** How many of its processes the kernel has ended because the limit was reached. Throws when the group is gone. */
  countKills: () => number
  processIds: () => number[]
  /** Ends all of its processes. */
  kill: () => void
  /** Ends all of its processes, waits until they are gone, and removes the group. */
  remove: () => Promise<void>
}

// Kernel memory of TCP has a limit of its own in version 1; it is allowed this part of the whole.
const shareOfTcp = 1 / 8

/** Makes a group with a limit of bytes, swap included. Throws when it cannot be made. */
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
      // A step whose processes end one by one would go on as something that its author never tested.
      set('memory.oom.group', 1)
      ignoreMissing(() => set('memory.swap.max', 0))
    } else {
      set('memory.limit_in_bytes', maxBytes)
      ignoreMissing(() => set('memory.memsw.limit_in_bytes', maxBytes))
      ignoreMissing(() => set('memory.kmem.tcp.limit_in_bytes', Math.floor(maxBytes * shareOfTcp)))
    }
    return openMemoryGroup(folder)
  } catch (error) {
    rmdirSync(folder)
    throw error
  }
}

/** A group that was made before, perhaps by a runner that was killed. */
export function openMemoryGroup(folder: string): MemoryGroup {
  const procsFile = join(folder, 'cgroup.procs')
  const group: MemoryGroup = {
    folder,
    procsFile,
    countKills: () => killsIn(readEvents(folder)),
    processIds: () => readProcessIds(procsFile),
    kill() {
      // Version 2 since Linux 5.14 ends all at once.
      if (endAtOnce(join(folder, 'cgroup.kill'))) return
      for (const pid of group.processIds()) signal(pid, 'SIGKILL')
    },
    remove: () =>
      untilOver(() => {
        group.kill()
        return isRemoved(folder)
      }),
  }
  return group
}

/** Whether a path is that of a group with this name. */
export function isGroupNamed(path: string, name: string): boolean {
  return isAbsolute(path) && basename(path) === name && existsSync(join(path, 'cgroup.procs'))
}

/** The processes of a group that this process can see; others have the number 0. */
export function readProcessIds(procsFile: string): number[] {
  try {
    const lines = readFileSync(procsFile, 'utf8').split('\n')
    return lines.map(Number).filter((pid) => pid > 0)
  } catch {
    // The group is gone.
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

function endAtOnce(file: string): boolean {
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
    // Processes that have ended are counted for a moment longer.
    if (code === 'EBUSY') return false
    throw error
  }
}

function ignoreMissing(write: () => void): void {
  try {
    write()
  } catch (error) {
    const code = codeOf(error)
    // A kernel without accounting of swap or of TCP has no such file, or does not support it.
    if (code !== 'ENOENT' && code !== 'EOPNOTSUPP' && code !== 'ENOTSUP') throw error
  }
}
