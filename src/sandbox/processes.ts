import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** A process of which the number may belong to another one by now: proc(5). */
export type Process = { pid: number; parent: number; startedAt: string; isGone: boolean }

/** All processes that can be seen. `proc` is where a proc(5) file system is mounted; none when it has gone with its room. */
export function processIds(proc = '/proc'): number[] {
  return namesIn(proc)
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

export function findProcess(pid: number, proc = '/proc'): Process | undefined {
  const text = readOrNothing(`${proc}/${pid}/stat`)
  // The name before may hold anything, brackets and spaces too.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state = '', parent = ''] = fields
  if (text === '') return undefined
  // One that waits to be collected does nothing any more, and with it all whose first process it was.
  return { pid, parent: Number(parent), startedAt: fields[19] ?? '', isGone: /[ZX]/.test(state) }
}

/** Whether a process that was found once is still there and does something. */
export function stillRuns({ pid, startedAt }: Process): boolean {
  const now = findProcess(pid)
  return now !== undefined && now.startedAt === startedAt && !now.isGone
}

/** The processes that descend from one, without it. */
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

/** The processes of a user. */
export function processesOfUser(user: number): Process[] {
  return processIds()
    .filter((pid) => readOrNothing(`/proc/${pid}/status`).includes(`\nUid:\t${user}\t`))
    .flatMap((pid) => findProcess(pid) ?? [])
    .filter(({ isGone }) => !isGone)
}

/** The processes that stand in a folder of a room, have it mounted, or bear its mark. */
export function processesOfWorkspace(room: string): Process[] {
  const name = room.slice(room.lastIndexOf('/') + 1)
  const isOfRoom = (pid: number) =>
    linkOrNothing(`/proc/${pid}/cwd`).includes(`/${name}`) ||
    readOrNothing(`/proc/${pid}/mountinfo`).includes(`/${name}/`) ||
    `\0${readOrNothing(`/proc/${pid}/environ`)}\0`.includes(`\0${workspaceVariable}=${name}\0`)
  return processIds()
    .filter(isOfRoom)
    .flatMap((pid) => findProcess(pid) ?? [])
    .filter(({ isGone }) => !isGone)
}

/** The variable that tells of steps without a sandbox whose they are. */
export const workspaceVariable = 'SVC_ROOM'

/** Sends a signal to a process, if it is there. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // ESRCH: it has ended. EPERM: it is another's by now.
  }
}

function readOrNothing(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // It has ended, or is somebody else's.
    return ''
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function linkOrNothing(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
