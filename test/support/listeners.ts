import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** How many TCP ports a process and those of its group listen on: proc(5), /proc/net/tcp. */
export function listenersOf(group: number): number {
  const sockets = new Set(processesOf(group).flatMap(socketsOf))
  const lines = ['tcp', 'tcp6'].flatMap((name) => read(`/proc/net/${name}`).split('\n'))
  const listening = '0A'
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === listening && sockets.has(inode)).length
}

function processesOf(group: number): number[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return all.map(Number).filter((pid) => groupOf(pid) === group)
}

function groupOf(pid: number): number {
  const stat = read(`/proc/${pid}/stat`)
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2] ?? 0)
}

function socketsOf(pid: number): (string | undefined)[] {
  try {
    const folder = `/proc/${pid}/fd`
    const targets = readdirSync(folder).map((name) => readlinkSync(`${folder}/${name}`))
    return targets.map((target) => /^socket:\[(\d+)\]$/.exec(target)?.[1])
  } catch {
    // It has ended, or closed one of them meanwhile.
    return []
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
