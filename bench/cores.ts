import { readFileSync } from 'node:fs'
import { run } from './program.ts'

const serverCount = 2

// Read at load time, before the benchmark moves to the cores of clients.
const allowed = allowedCores()

/** The cores of all servers, in the format of taskset(1). */
export const serverCores = allowed.slice(0, serverCount).join(',')

/** The number of cores of a server. */
export const serverCoreCount = Math.min(serverCount, allowed.length)

/** The other cores are those of clients; on a machine with few, all share. */
export const clientCores =
  allowed.length >= 2 * serverCount ? allowed.slice(serverCount).join(',') : allowed.join(',')

/** Moves this process, and all clients that it starts later, to the cores of clients. */
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
