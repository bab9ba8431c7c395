import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { median, takeTurns } from './measure.ts'
import { watchGrowth } from './memory.ts'
import type { Effort } from './operations.ts'
import { say } from './output.ts'
import { startWireClient, type Target, toText, wholeFetch } from './wire.ts'
import type { Workspace } from './workspace.ts'

/** A server with the address at which git clones from it. */
export type Source = {
  address: string
  cpuMs: () => number
  /** Ensures that no response is cached for the clones of a round. */
  renew?: (round: number) => Promise<unknown>
}

/** Medians in ms, of each that was measured. */
export type Storm = Record<'wall' | 'cpu', Record<string, number>> & { rounds: number }

export const stormSize = 32
const maxConcurrentChecks = 2
const lookEveryMs = 50
const heldMs = 2000

/** Measures simultaneous clones of one repository: the time until the last one ends, and the server's CPU time. */
export async function measureStorm(
  workspace: Workspace,
  sources: Record<string, Source>,
  effort: Effort,
): Promise<Storm> {
  say(`Measuring: ${stormSize} clones at once`)
  const names = Array.from({ length: stormSize }, (_, index) => `storm-${index}`)
  const storm = (source: Source) => async (round: number) => {
    await source.renew?.(round)
    await workspace.sync()
    const cpuBefore = source.cpuMs()
    const startedAt = performance.now()
    const clone = (name: string) =>
      workspace.git(['clone', '--quiet', '--mirror', source.address, name])
    await Promise.all(names.map(clone))
    const wall = performance.now() - startedAt
    const cpu = source.cpuMs() - cpuBefore
    await checkAll(workspace, names)
    return { wall, cpu }
  }
  const contestants = Object.fromEntries(
    Object.entries(sources).map(([name, source]) => [name, storm(source)]),
  )
  const { samples, rounds } = await takeTurns({ contestants, ...effort })
  const of = (measure: 'wall' | 'cpu') =>
    Object.fromEntries(
      Object.entries(samples).map(([name, all]) => [name, median(all.map((one) => one[measure]))]),
    )
  return { wall: of('wall'), cpu: of('cpu'), rounds }
}

/** Measures svc's memory per clone served from the cache, in bytes, with slow clients. */
export async function measureHeldClones(
  { signal }: Workspace,
  { pid, target, commit }: { pid: number; target: Target; commit: string },
): Promise<number> {
  say('Measuring: memory of clones served from the cache')
  const [request = ''] = wholeFetch(commit).map(toText(target))
  const port = Number(new URL(target.url).port)
  {
    await using client = startWireClient()
    for (let time = 0; time < 3; time++)
      await client.work({ port, connections: 1, ms: 0, requests: [request] })
  }
  await pause(heldMs, undefined, { signal })
  using watched = watchGrowth(pid, lookEveryMs)
  const held = Array.from({ length: stormSize }, () => beginSlowly(port, request))
  await Promise.all(held.map(({ began }) => began))
  await pause(heldMs, undefined, { signal })
  for (const { socket } of held) socket.destroy()
  return watched.growth.tree / stormSize
}

/** Checks clones with git, and removes them. */
async function checkAll({ git, folder }: Workspace, names: string[]): Promise<void> {
  const left = [...names]
  const check = async () => {
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      await git(['-C', name, 'fsck'])
      await rm(join(folder, name), { recursive: true })
    }
  }
  await Promise.all(Array.from({ length: maxConcurrentChecks }, check))
}

/** Sends a request, and stops reading when the response begins. */
function beginSlowly(port: number, request: string): { socket: Socket; began: Promise<unknown> } {
  const socket = connect({ port, host: '127.0.0.1' })
  socket.on('error', () => {})
  socket.write(request, 'latin1')
  const began = once(socket, 'data').then(() => socket.pause())
  return { socket, began }
}
