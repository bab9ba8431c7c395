import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Postgres } from '../test/support/postgres.ts'
import { familyOf } from '../test/support/processes.ts'
import { limitCpu } from './cpu-limit.ts'
import { print } from './print.ts'
import type { Row } from './rows.ts'
import type { Svc } from './svc.ts'
import { listingRequests, startWireClient } from './wire-client.ts'

type Options = {
  startNode: (name: string) => Promise<Svc>
  /** The repository that is listed. */
  repository: string
  postgres: Pick<Postgres, 'data'>
  rounds: number
  ms: number
}

const most = 3
const shareOfCore = 0.25
const connections = 4

/**
 * Measures how many listings one, two and three nodes serve, each with a part of a core: on one machine they would
 * otherwise take the same cores from each other. Also what a listing costs PostgreSQL.
 */
export async function measureScaling(options: Options): Promise<Row[]> {
  const { startNode, repository, postgres, rounds, ms } = options
  await using running = new AsyncDisposableStack()
  const nodes: Svc[] = []
  const clients: ReturnType<typeof startWireClient>[] = []
  for (let index = 0; index < most; index++) {
    const node = running.use(await startNode(`capped-${index}`))
    if (!limitOf(node, running)) {
      print('The CPU time of nodes cannot be limited: control groups need root')
      return []
    }
    nodes.push(node)
    clients.push(running.use(startWireClient()))
  }
  const requests = listingRequests()
  const list = async (count: number) => {
    const jobs = nodes.slice(0, count).map((node, index) => {
      const client = clients[index]
      if (!client) throw new Error('A node has no client.')
      return client.run(node.target(repository), { connections, ms, requests })
    })
    const observed = await Promise.all(jobs)
    const passes = observed.reduce((sum, { latencies }) => sum + latencies.length, 0)
    return { passes, perSecond: (passes * 1000) / ms }
  }
  await list(most)
  const rates: number[][] = [[], [], []]
  const costs: number[] = []
  for (let round = 0; round < rounds; round++) {
    for (let count = 1; count <= most; count++) {
      const before = cpuMs(postgres)
      const { passes, perSecond } = await list(count)
      rates[count - 1]?.push(perSecond)
      costs.push((cpuMs(postgres) - before) / (passes * requests.length))
    }
  }
  const [one, two, three] = rates.map(medianOf)
  const unit = 'per second'
  return [
    { name: 'nodes: listings of 2 beside 1', unit, values: { svc: two, peer: one }, rounds },
    { name: 'nodes: listings of 3 beside 1', unit, values: { svc: three, peer: one }, rounds },
    {
      name: 'nodes: CPU time of PostgreSQL for a request of a listing',
      unit: 'ms',
      values: { svc: medianOf(costs) },
      rounds: costs.length,
    },
  ] as Row[]
}

function limitOf(node: Svc, running: AsyncDisposableStack): boolean {
  const limit = limitCpu(node.pid, shareOfCore)
  if (limit) running.use(limit)
  return limit !== undefined
}

const tickMs = 10

/** The CPU time of a PostgreSQL and its sessions so far, in ms: proc(5). */
function cpuMs({ data }: Pick<Postgres, 'data'>): number {
  const pid = Number(readFileSync(join(data, 'postmaster.pid'), 'latin1').split('\n', 1)[0])
  const ticks = familyOf(pid).map((member) => {
    const fields = readFileSync(`/proc/${member}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? []
    return Number(fields[11]) + Number(fields[12])
  })
  return ticks.reduce((sum, one) => sum + one, 0) * tickMs
}

function medianOf(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}
