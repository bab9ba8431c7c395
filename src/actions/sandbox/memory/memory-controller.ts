import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { codeOf } from '#base/error-code.ts'
import { newId } from '#base/ids.ts'
import { runTool } from '../launch.ts'
import { descendantsOf, findProcess } from '../processes.ts'
import type { SandboxTools } from '../tools.ts'
import { type MemoryController, makeMemoryGroup, readProcessIds } from './memory-group.ts'

/**
 * Finds where this process can create control groups with a memory limit. In version 2 a group has either processes or
 * limited subgroups, so with `canMoveProcesses` the processes of this program are moved to a subgroup first. Throws an
 * error with the reason when no group can be created.
 */
function findMemoryController({
  canMoveProcesses,
}: {
  canMoveProcesses: boolean
}): MemoryController {
  const own = locateMemoryGroup(
    readFileSync('/proc/self/cgroup', 'utf8'),
    readFileSync('/proc/self/mountinfo', 'utf8'),
  )
  if (own === undefined) throw new Error('no control group with memory is mounted')
  const { version, folder } = own
  if (version === 'cgroup v1') return { version, parent: folder }
  const parent = basename(folder) === ownGroupName ? dirname(folder) : folder
  if (canMoveProcesses) enableMemory(parent)
  else if (!limitsBelow(parent)) throw new Error('no server has prepared the control group')
  return { version, parent }
}

/** The control group that accounts for this process's memory. proc(5) describes both texts. */
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

/** The part of a path below the root of a mount; undefined when the mount does not contain it. */
function pathBelow(path: string, root: string): string | undefined {
  if (path.startsWith('/..')) return undefined
  if (root === '/') return path
  return `${path}/`.startsWith(`${root}/`) ? path.slice(root.length) : undefined
}

/** The subgroup for the server's own processes. */
const ownGroupName = 'svc-processes'
const maxMoves = 100

/** Enables the memory controller for subgroups of a version 2 group. */
function enableMemory(parent: string): void {
  if (!wordsOf(join(parent, 'cgroup.controllers')).includes('memory')) {
    throw new Error('the memory controller is not delegated to this service')
  }
  for (let moves = 0; !limitsBelow(parent); moves++) {
    try {
      writeFileSync(join(parent, 'cgroup.subtree_control'), '+memory', { flag: 'r+' })
    } catch (error) {
      const code = codeOf(error)
      // A process started meanwhile is in its parent's old group.
      if (code !== 'EBUSY' || moves === maxMoves) throw error
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
  if (!pids.every(relatedProcesses(parent))) {
    throw new Error('other processes are in the control group of this service')
  }
  const own = join(parent, ownGroupName)
  mkdirSync(own, { recursive: true })
  for (const pid of pids) move(pid, join(own, 'cgroup.procs'))
}

/** Whether a process is a descendant of this one, or an ancestor such as a shell or a container's init. */
function relatedProcesses(parent: string): (pid: number) => boolean {
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

/** Where control groups for steps can be created, or why not. */
export type MemoryTrial =
  | { controller: MemoryController; fault: undefined }
  | { controller: undefined; fault: string }

type Options = {
  tools: Pick<SandboxTools, 'sh'>
  maxBytes: number
  /** See `findMemoryController`. */
  canMoveProcesses: boolean
}

/** Creates a group that a process joins, as a trial. Never rejects. */
export async function tryMemory({
  tools,
  maxBytes,
  canMoveProcesses,
}: Options): Promise<MemoryTrial> {
  try {
    const controller = findMemoryController({ canMoveProcesses })
    const group = makeMemoryGroup(controller, `svc-trial-${newId()}`, maxBytes)
    const join = ['-c', 'echo 0 >"$1"', 'sh', group.procsFile]
    const { exitCode } = await runTool([tools.sh, ...join]).finally(group.remove)
    if (exitCode === 0) return { controller, fault: undefined }
    return { controller: undefined, fault: 'a process may not join one' }
  } catch (error) {
    return { controller: undefined, fault: toReason(error) }
  }
}

/** Moves the server's processes to a subgroup while there are few, so that its runner can create groups. */
export function prepareMemoryLimits(): void {
  try {
    findMemoryController({ canMoveProcesses: true })
  } catch {
    // The runner logs later which limit is in force, and why.
  }
}

export function describeMemory({ controller, fault }: MemoryTrial): string {
  if (controller) return `The kernel limits their memory (${controller.version}).`
  return `Their memory is measured every 100 ms, without the buffers of sockets, since no control group can be made: ${fault}.`
}

// Omits the error's path, which readers of a run must not see.
function toReason(error: unknown): string {
  const code = codeOf(error)
  if (code === 'EACCES' || code === 'EPERM') return 'this user may not make one'
  if (code === 'EROFS') return 'the cgroup file system is mounted read-only'
  if (code !== undefined) return `the system says ${code}`
  return error instanceof Error ? error.message : String(error)
}
