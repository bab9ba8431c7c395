import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** Processes that work in a folder or name it in their command line: the gits of a data directory. */
export function processesIn(folder: string): number[] {
  return allProcesses().filter((pid) => {
    const words = read(`/proc/${pid}/cmdline`).split('\0')
    return isInside(folderOf(pid), folder) || words.some((word) => isInside(word, folder))
  })
}

/** The command line of a process; empty for one that has ended. */
export function commandOf(pid: number): string {
  return read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()
}

/** The processes that a process has started, and that have not ended. */
export function childrenOf(pid: number): number[] {
  return allProcesses().filter((one) => parentOf(one) === pid)
}

/** What a process and its descendants hold in memory, in KiB. */
export function memoryOf(pid: number): number {
  const sizes = familyOf(pid).map(
    (one) => /^VmRSS:\s+(\d+)/m.exec(read(`/proc/${one}/status`))?.[1],
  )
  return sizes.reduce((sum, size) => sum + Number(size ?? 0), 0)
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

/** Kills a process and all its descendants at one moment: none of them sees another's end. */
export function killTree(pid: number): void {
  const stopped = new Set([pid])
  signal(pid, 'SIGSTOP')
  // Whoever is stopped starts no more children, so this comes to an end.
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

function parentOf(pid: number): number {
  const stat = read(`/proc/${pid}/stat`)
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? 0)
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
