import { join } from 'node:path'
import { createQueueLoad } from '../test/support/queue-load.ts'
import { createRandom } from '../test/support/random.ts'
import { type Contestant, compare, type Effort } from './measure.ts'
import { print } from './print.ts'
import { type Row, timeRow } from './rows.ts'
import { startSvc } from './svc.ts'
import type { Workspace } from './workspace.ts'

/** How long the CI takes for a commit. */
const judgesForMs = 3000
const share = 0.05

/**
 * Measures the time for each change that lands through the queue, with as many clients as changes and a CI that takes three
 * seconds; beside one client that lands them one by one. One in twenty is broken, and one in twenty fails at first.
 */
export async function measureQueue(
  { folder }: Workspace,
  { changes, alone, ...effort }: Effort & { changes: number; alone: number },
): Promise<Row[]> {
  print('Starting svc with a queue')
  await using svc = await startSvc({ dataDir: join(folder, 'data-queue') })
  const { admin } = svc
  let loads = 0

  const landing =
    (clients: number, perClient: number): Contestant =>
    async (round) => {
      const random = createRandom(round + 1)
      const name = `queue-${loads++}`
      const load = createQueueLoad({
        ...{ random, nodes: () => [{ admin }], clients, perClient, share, judgesForMs, name },
      })
      await load.prepare()
      const startedAt = performance.now()
      await load.run()
      const elapsedMs = performance.now() - startedAt
      await load.check()
      return elapsedMs / load.accepted.filter(({ kind }) => kind !== 'broken').length
    }

  const medians = await compare(
    'landing through the queue',
    { svc: landing(changes, 1), peer: landing(1, alone) },
    effort,
  )
  return [timeRow('queue: landing a change, beside one by one', medians)]
}
