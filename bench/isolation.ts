import { accessSync, constants, mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { run } from './processes.ts'

const maxServerCores = 2

// Read at load time, before the benchmark moves to the cores of clients.
const allowed = allowedCores()

/** The cores of all servers, in the format of taskset(1). */
export const serverCores = allowed.slice(0, maxServerCores).join(',')

/** The number of cores of a server. */
export const serverCoreCount = Math.min(maxServerCores, allowed.length)

/** The other cores are those of clients; on a machine with few, all share. */
export const clientCores =
  allowed.length >= 2 * maxServerCores ? allowed.slice(maxServerCores).join(',') : allowed.join(',')

/** Moves this process, and all clients that it starts later, to the cores of clients. */
export async function moveToClientCores(): Promise<void> {
  await run('taskset', ['--all-tasks', '-cp', clientCores, `${process.pid}`], {})
}

function allowedCores(): number[] {
  const status = readFileSync('/proc/self/status', 'latin1')
  const [, list = ''] = /^Cpus_allowed_list:\s*(\S+)$/m.exec(status) ?? []
  return list.split(',').flatMap((range) => {
    const [from = 0, to = from] = range.split('-').map(Number)
    return Array.from({ length: to - from + 1 }, (_, index) => from + index)
  })
}

const removeAttempts = 50
const removeRetryMs = 100

let groupCount = 0

/**
 * Runs a server and its descendants on the cores of servers, and in a control group that counts their CPU time,
 * including that of processes that ended without being waited for: cgroups(7), of either version.
 */
export function confineServer() {
  const group = groups && join(groups.folder, `svc-bench-${process.pid}-${groupCount++}`)
  if (group) mkdirSync(group)
  const confined = ['taskset', '-c', serverCores]
  return {
    /** The prefix of commands that run in the group. */
    prefix: group
      ? ['sh', '-c', 'echo $$ >"$0" && exec "$@"', join(group, 'cgroup.procs'), ...confined]
      : confined,

    /** Returns the CPU time of all processes so far, in ms; NaN where it cannot be counted. */
    cpuMs(): number {
      return group && groups ? groups.cpuMs(group) : Number.NaN
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

/** The group of this process, in which others can be created, and how to read the CPU time of one. */
function findGroups(): { folder: string; cpuMs: (group: string) => number } | undefined {
  const mounts = read('/proc/self/mounts')
    .split('\n')
    .map((line) => line.split(' '))
  const groupOf = (controllers: string) =>
    new RegExp(`^\\d+:${controllers}:(.*)$`, 'm').exec(read('/proc/self/cgroup'))?.[1] ?? '/'
  for (const [, place = '', type = '', options = ''] of mounts) {
    const isOld = type === 'cgroup' && options.split(',').includes('cpuacct')
    if (type !== 'cgroup2' && !isOld) continue
    const folder = join(place, groupOf(isOld ? '(?:.*,)?cpuacct(?:,.*)?' : ''))
    const cpuMs = isOld ? oldCpuMs : newCpuMs
    if (mayCreateGroups(folder)) return { folder, cpuMs }
  }
  return undefined
}

function newCpuMs(group: string): number {
  const [, micros] = /^usage_usec (\d+)$/m.exec(read(join(group, 'cpu.stat'))) ?? []
  return Number(micros) / 1000
}

function oldCpuMs(group: string): number {
  return Number(read(join(group, 'cpuacct.usage'))) / 1e6
}

function mayCreateGroups(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK)
    accessSync(join(folder, 'cgroup.procs'), constants.W_OK)
    return true
  } catch {
    return false
  }
}

// The kernel keeps a group for a moment after the last of its processes.
async function remove(group: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      rmdirSync(group)
      return
    } catch (error) {
      if (attempt === removeAttempts) throw error
      await pause(removeRetryMs)
    }
  }
}

function read(path: string): string {
  return readFileSync(path, 'latin1')
}
