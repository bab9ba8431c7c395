import { readFileSync } from 'node:fs'
import { run } from './program.ts'

const serverCount = 2

// Looked up at once: the bench goes to the cores of clients before anything else is started.
const allowed = allowedCores()

/** The cores of all servers, as taskset(1) takes them. */
export const serverCores = allowed.slice(0, serverCount).join(',')

/** How many cores a server has. */
export const serverCoreCount = Math.min(serverCount, allowed.length)

/** The other cores are those of clients; on a machine with few, all share. */
export const clientCores =
  allowed.length >= 2 * serverCount ? allowed.slice(serverCount).join(',') : allowed.join(',')

/** Moves this process, and so all the clients that it will start, to the cores of clients. */
export async function goWhereClientsRun(): Promise<void> {
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
