import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { familyOf } from './processes.ts'

/** How many TCP ports a process and its descendants listen on: proc(5), /proc/net/tcp. */
export function listenersOf(pid: number): number {
  const sockets = new Set(familyOf(pid).flatMap(socketsOf))
  const lines = ['tcp', 'tcp6'].flatMap((name) => read(`/proc/net/${name}`).split('\n'))
  const listening = '0A'
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === listening && sockets.has(inode)).length
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
