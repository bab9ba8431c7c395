import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** A process; the start time distinguishes it from a later one with the same id: proc(5). */
export type Process = { pid: number; parent: number; startedAt: string; hasEnded: boolean }

/** All visible processes; `proc` is the mount point of a proc(5) file system. Empty when that no longer exists. */
export function processIds(proc = '/proc'): number[] {
  return namesIn(proc)
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

export function findProcess(pid: number, proc = '/proc'): Process | undefined {
  const text = readOrNothing(`${proc}/${pid}/stat`)
  // The command name before may contain brackets and spaces.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state = '', parent = ''] = fields
  if (text === '') return undefined
  // A zombie no longer runs, and neither does the PID namespace whose first process it was.
  return { pid, parent: Number(parent), startedAt: fields[19] ?? '', hasEnded: /[ZX]/.test(state) }
}

/** Whether a process found earlier still runs. */
export function stillRuns({ pid, startedAt }: Process): boolean {
  const now = findProcess(pid)
  return now !== undefined && now.startedAt === startedAt && !now.hasEnded
}

export function descendantsOf(ancestor: number): Process[] {
  const all = processIds().flatMap((pid) => findProcess(pid) ?? [])
  const children = Map.groupBy(all, ({ parent }) => parent)
  const found: Process[] = []
  const open = [ancestor]
  for (let pid = open.pop(); pid !== undefined; pid = open.pop()) {
    for (const child of children.get(pid) ?? []) {
      found.push(child)
      open.push(child.pid)
    }
  }
  return found
}

/** The number of processes and threads of a user, which a limit of processes counts: RLIMIT_NPROC in getrlimit(2). */
export function countTasksOfUser(user: number): number {
  const counts = processIds().map((pid) => {
    const status = readOrNothing(`/proc/${pid}/status`)
    const isOwn = status.includes(`\nUid:\t${user}\t`)
    return isOwn ? Number(/\nThreads:\t(\d+)/.exec(status)?.[1] ?? 1) : 0
  })
  return counts.reduce((sum, count) => sum + count, 0)
}

export function processesOfUser(user: number): Process[] {
  return processIds()
    .filter((pid) => readOrNothing(`/proc/${pid}/status`).includes(`\nUid:\t${user}\t`))
    .flatMap((pid) => findProcess(pid) ?? [])
    .filter(({ hasEnded }) => !hasEnded)
}

/** The processes that work in a workspace's directory, have it mounted, or have its name in their environment. */
export function processesOfWorkspace(path: string): Process[] {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const belongsToWorkspace = (pid: number) =>
    linkOrNothing(`/proc/${pid}/cwd`).includes(`/${name}`) ||
    readOrNothing(`/proc/${pid}/mountinfo`).includes(`/${name}/`) ||
    `\0${readOrNothing(`/proc/${pid}/environ`)}\0`.includes(`\0${workspaceVariable}=${name}\0`)
  return processIds()
    .filter(belongsToWorkspace)
    .flatMap((pid) => findProcess(pid) ?? [])
    .filter(({ hasEnded }) => !hasEnded)
}

/** The environment variable with the workspace's name, by which steps without a sandbox are found. */
export const workspaceVariable = 'SVC_WORKSPACE'

/** Sends a signal to a process, if it still exists. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // ESRCH: it has ended. EPERM: its id now belongs to another user's process.
  }
}

/** The text of a file of proc(5); empty for a process that has ended, or belongs to another user. */
export function readOrNothing(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

export function linkOrNothing(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

const pollIntervalMs = 2
const pollTimeoutMs = 30_000

/** Polls until `isDone` returns true. Throws after 30 s, which only a fault of the kernel can cause. */
export async function pollUntil(isDone: () => boolean | Promise<boolean>): Promise<void> {
  for (let waitedMs = 0; !(await isDone()); waitedMs += pollIntervalMs) {
    if (waitedMs > pollTimeoutMs) throw new Error('Killed processes of a step do not end.')
    await sleep(pollIntervalMs)
  }
}
