import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { codeOf } from '../base/error-code.ts'
import { type MemoryController, readProcessIds } from './memory-group.ts'
import { descendantsOf, findProcess } from './processes.ts'

/**
 * Finds where this process may make control groups with a limit of memory. In version 2 a group has either processes
 * or limited groups below it, so that with `mayChange` the processes of this program are moved to a group of their own
 * first. Throws an error that says why there can be none.
 */
export function findMemoryController({ mayChange }: { mayChange: boolean }): MemoryController {
  const own = locateMemoryGroup(
    readFileSync('/proc/self/cgroup', 'utf8'),
    readFileSync('/proc/self/mountinfo', 'utf8'),
  )
  if (own === undefined) throw new Error('no control group with memory is mounted')
  const { version, folder } = own
  if (version === 'cgroup v1') return { version, parent: folder }
  const parent = basename(folder) === ownName ? dirname(folder) : folder
  if (mayChange) enableMemory(parent)
  else if (!limitsBelow(parent)) throw new Error('no server has prepared the control group')
  return { version, parent }
}

/** The control group by which the memory of this process is counted. Both texts are described in proc(5). */
export function locateMemoryGroup(
  groups: string,
  mounts: string,
): { version: MemoryController['version']; folder: string } | undefined {
  // `4:memory:/path`, `3:cpu,memory:/path`, and of version 2 `0::/path`.
  const lines = groups.split('\n').map((line) => /^\d+:([^:]*):(\/.*)$/.exec(line))
  const [, , inV1] = lines.find((found) => found?.[1]?.split(',').includes('memory')) ?? []
  const [, , inV2] = lines.find((found) => found?.[1] === '') ?? []
  const [version, path] =
    inV1 === undefined ? (['cgroup v2', inV2] as const) : (['cgroup v1', inV1] as const)
  if (path === undefined) return undefined
  for (const mount of mounts.split('\n').flatMap(parseMount)) {
    const isOurs =
      version === 'cgroup v1'
        ? mount.type === 'cgroup' && mount.options.includes('memory')
        : mount.type === 'cgroup2'
    const below = isOurs ? pathBelow(path, mount.root) : undefined
    if (below !== undefined) return { version, folder: resolve(mount.point, `.${below}`) }
  }
  return undefined
}

type Mount = { root: string; point: string; type: string; options: string[] }

// `36 35 98:0 /root /mount/point rw,noatime master:1 - type source rw,options`.
function parseMount(line: string): Mount[] {
  const [before = '', after = ''] = line.split(' - ')
  const [, , , root, point] = before.split(' ').map(unescapePath)
  const [type = '', , options = ''] = after.split(' ')
  if (root === undefined || point === undefined) return []
  return [{ root, point, type, options: options.split(',') }]
}

function unescapePath(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  )
}

/** What of a path lies below the root of a mount; undefined when the mount does not show it. */
function pathBelow(path: string, root: string): string | undefined {
  if (path.startsWith('/..')) return undefined
  if (root === '/') return path
  return `${path}/`.startsWith(`${root}/`) ? path.slice(root.length) : undefined
}

/** The group to which a server moves its own processes. */
const ownName = 'svc-processes'
const movesMax = 100

/** Makes the groups below one of version 2 have the memory controller. */
function enableMemory(parent: string): void {
  if (!wordsOf(join(parent, 'cgroup.controllers')).includes('memory')) {
    throw new Error('the memory controller is not delegated to this service')
  }
  for (let moves = 0; !limitsBelow(parent); moves++) {
    try {
      writeFileSync(join(parent, 'cgroup.subtree_control'), '+memory', { flag: 'r+' })
    } catch (error) {
      const code = codeOf(error)
      // What is started meanwhile starts in the group that its parent had.
      if (code !== 'EBUSY' || moves === movesMax) throw error
      moveOwnProcesses(parent)
    }
  }
}

function limitsBelow(parent: string): boolean {
  return wordsOf(join(parent, 'cgroup.subtree_control')).includes('memory')
}

function moveOwnProcesses(parent: string): void {
  const procsFile = join(parent, 'cgroup.procs')
  const pids = readProcessIds(procsFile)
  if (!pids.every(areOurs(parent))) {
    throw new Error('other processes are in the control group of this service')
  }
  const own = join(parent, ownName)
  mkdirSync(own, { recursive: true })
  for (const pid of pids) move(pid, join(own, 'cgroup.procs'))
}

/** Whether a process was started by this one, or started it: a shell or an init of a container. */
function areOurs(parent: string): (pid: number) => boolean {
  const below = new Set(descendantsOf(process.pid).map(({ pid }) => pid))
  const above = new Set<number>()
  // The shell of a login session is not moved: systemd.scope(5).
  if (!parent.endsWith('.scope')) {
    for (let pid = process.ppid; pid > 0 && !above.has(pid); ) {
      above.add(pid)
      pid = findProcess(pid)?.parent ?? 0
    }
  }
  return (pid) => pid === process.pid || below.has(pid) || above.has(pid)
}

function move(pid: number, procsFile: string): void {
  try {
    writeFileSync(procsFile, String(pid), { flag: 'r+' })
  } catch (error) {
    const code = codeOf(error)
    // It has ended.
    if (code !== 'ESRCH') throw error
  }
}

function wordsOf(file: string): string[] {
  return readFileSync(file, 'utf8').trim().split(' ')
}
