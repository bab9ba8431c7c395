import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { ownerVariable } from '#git/process/orphans.ts'

/**
 * Processes that work in a folder or name it in their command line: the gits of a data directory, but for readers of objects,
 * which requests share and which outlast them.
 */
export function processesIn(folder: string): number[] {
  return allProcesses().filter((pid) => {
    const words = read(`/proc/${pid}/cmdline`).split('\0')
    if (words.includes('--batch-command')) return false
    const paths = words.map((word) => word.replace(/^--[a-z-]+=/, ''))
    return isInside(folderOf(pid), folder) || paths.some((path) => isInside(path, folder))
  })
}

/** Processes of steps, found by a unique word in their command line. */
export function processesNaming(word: string): number[] {
  return allProcesses().filter((pid) => read(`/proc/${pid}/cmdline`).split('\0').includes(word))
}

/** Processes of steps in the workspaces of a data directory's runner, whether or not their parents still run. */
export function processesInWorkspaces(dataDir: string): number[] {
  const workspaces = join(dataDir, 'runner/workspaces/svc-workspace-')
  // Seen from its own file system, the directory may begin at the root.
  const mounted = join(
    basename(dirname(dataDir)),
    basename(dataDir),
    'runner/workspaces/svc-workspace-',
  )
  return allProcesses().filter(
    (pid) =>
      folderOf(pid).startsWith(workspaces) ||
      read(`/proc/${pid}/cmdline`).includes(workspaces) ||
      read(`/proc/${pid}/mountinfo`).includes(mounted),
  )
}

/** The gits that import into a data directory, by the mark that they carry, with all that they have started. */
export function importingGits(dataDir: string): number[] {
  return gitsOf(dataDir, 'import:')
}

/** The gits of a data directory that a living server has not started; one that ends just now may be among them. */
export function orphansOf({ dataDir, pid: server }: { dataDir: string; pid: number }): number[] {
  const gits = gitsOf(dataDir, '')
  const family = new Set(familyOf(server))
  return gits.filter((pid) => !family.has(pid))
}

/** Processes in a data directory that its server has not started: what is left of another one. */
export function leftBehind({ dataDir, pid: server }: { dataDir: string; pid: number }): number[] {
  const all = processesIn(dataDir)
  const family = new Set(familyOf(server))
  // A process that has ended since does not count.
  return all.filter((pid) => !family.has(pid) && commandOf(pid) !== '')
}

// See git/process/orphans.ts for the mark.
function gitsOf(dataDir: string, owner: string): number[] {
  return allProcesses().filter((pid) => {
    const environment = read(`/proc/${pid}/environ`)
    // Processes of an import have the directory in their command line or in GIT_DIR.
    return (
      environment.includes(`${ownerVariable}=${owner}`) &&
      (environment + read(`/proc/${pid}/cmdline`)).includes(dataDir)
    )
  })
}

/** The command line of a process; empty for one that has ended. */
export function commandOf(pid: number): string {
  return read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()
}

/** A process and all its descendants. */
export function familyOf(pid: number): number[] {
  const family = [pid]
  const others = allProcesses().map((one) => ({ one, parent: parentOf(one) }))
  for (const member of family) {
    family.push(...others.filter(({ parent }) => parent === member).map(({ one }) => one))
  }
  return family
}

/** The SSH process of a service, which its first client has started. */
export function sshProcessOf({ pid }: { pid: number }): number {
  const [process, ...others] = sshProcessesOf({ pid })
  if (process === undefined || others.length > 0)
    throw new Error(`There are ${others.length + 1} SSH processes, or none.`)
  return process
}

export function sshProcessesOf({ pid }: { pid: number }): number[] {
  return familyOf(pid).filter((child) => /ssh-main/.test(commandOf(child)))
}

/** Kills a process and all its descendants at one moment: none of them sees another's end. */
export function killTree(pid: number): void {
  const stopped = new Set([pid])
  signal(pid, 'SIGSTOP')
  // Stopped processes start no children, so this terminates.
  for (;;) {
    const further = allProcesses().filter((one) => !stopped.has(one) && stopped.has(parentOf(one)))
    if (further.length === 0) break
    for (const child of further) {
      signal(child, 'SIGSTOP')
      stopped.add(child)
    }
  }
  for (const one of stopped) signal(one, 'SIGKILL')
}

/**
 * Memory that processes of a server take, in bytes: proc(5), smaps_rollup. Mapped files are not counted: their share
 * grows when another program that runs the same file ends.
 */
export function memoryOf(nodes: number[]): number {
  const shares = nodes.flatMap((pid) => {
    const rollup = read(`/proc/${pid}/smaps_rollup`)
    return [...rollup.matchAll(/^Pss_(?:Anon|Shmem): +(\d+) kB$/gm)]
  })
  return shares.reduce((sum, [, kib]) => sum + Number(kib) * 1024, 0)
}

/** A server's process and those of its descendants that run the same program. */
export function nodesOf(server: number): number[] {
  const program = programOf(server)
  return familyOf(server).filter((pid) => programOf(pid) === program)
}

/** Sends a signal; a process that is gone already is fine. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // ESRCH: it has ended.
  }
}

function allProcesses(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

/** The process that started another. */
export function parentOf(pid: number): number {
  const stat = read(`/proc/${pid}/stat`)
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? 0)
}

function programOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/exe`)
  } catch {
    return ''
  }
}

function folderOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}

function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`)
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
