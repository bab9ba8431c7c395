import { accessSync, constants, mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { serverCores } from './cores.ts'

const attempts = 50
const attemptMs = 100

let count = 0

/**
 * Runs a server and its descendants on the cores of servers, and in a control group that counts their CPU time,
 * including that of processes that ended without being waited for (cgroups(7), version 2).
 */
export function createEnclosure() {
  const group = groups && join(groups, `svc-bench-${process.pid}-${count++}`)
  if (group) mkdirSync(group)
  const confined = ['taskset', '-c', serverCores]
  return {
    /** The prefix of commands that run in the enclosure. */
    prefix: group
      ? ['sh', '-c', 'echo $$ >"$0" && exec "$@"', join(group, 'cgroup.procs'), ...confined]
      : confined,

    /** Returns the CPU time of all processes so far, in ms; NaN where it cannot be counted. */
    cpuMs(): number {
      if (!group) return Number.NaN
      const [, micros] = /^usage_usec (\d+)$/m.exec(read(join(group, 'cpu.stat'))) ?? []
      return Number(micros) / 1000
    },

    async [Symbol.asyncDispose]() {
      if (group) await remove(group)
    },
  }
}

/** Whether this user may create control groups on this machine. */
export function countsCpu(): boolean {
  return groups !== undefined
}

const groups = findGroups()

function findGroups(): string | undefined {
  const mounts = read('/proc/self/mounts').split('\n')
  const [, place] = mounts.find((line) => line.split(' ')[2] === 'cgroup2')?.split(' ') ?? []
  if (place === undefined) return undefined
  const [, own = '/'] = /^0::(.*)$/m.exec(read('/proc/self/cgroup')) ?? []
  const folder = join(place, own)
  try {
    accessSync(folder, constants.W_OK)
    accessSync(join(folder, 'cgroup.procs'), constants.W_OK)
    return folder
  } catch {
    return undefined
  }
}

// The kernel keeps a group for a moment after the last of its processes.
async function remove(group: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      rmdirSync(group)
      return
    } catch (error) {
      if (attempt === attempts) throw error
      await pause(attemptMs)
    }
  }
}

function read(path: string): string {
  return readFileSync(path, 'latin1')
}
