// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { faultSteps } from '#base/fault-points.ts'
import { newTokenString } from '#base/token-string.ts'
import { until } from '../support/condition.ts'
import { temporaryFolder } from '../support/git.ts'
import { openNodesSite } from '../support/nodes-site.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { createQueueLoad } from '../support/queue-load.ts'
import { createRandom } from '../support/random.ts'
import { toRounds } from '../support/rounds.ts'
import { type Service, startService } from '../support/service.ts'

const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)
const kills = toRounds(1)
const skip = without('postgres') || withoutObjectStore

test(`nodes that are killed land each change of the queue once, at commits that were tried (SVC_CRASH_SEED=${seed})`, {
  skip,
}, async (t) => {
  const random = createRandom(seed)
  await using site = await openNodesSite(2, { hasOwnStorage: false })
  const load = createQueueLoad({
    ...{ random, nodes: () => site.nodes, clients: 5, perClient: toRounds(2), share: 0.1 },
  })
  await load.prepare()
  const running = load.run()
  const failed = running.then(
    () => undefined,
    (error: unknown) => error,
  )
  for (let round = 0; round < kills; round++) {
    const before = load.accepted.length
    await until('changes land', async () => {
      const error = await Promise.race([failed, sleep(10)])
      if (error !== undefined) throw error
      return load.accepted.length >= before + 3
    })
    const index = random.below(site.nodes.length)
    await site.nodes[index]?.end('SIGKILL')
    await site.restart(index, { isEmpty: random.chance(0.5) })
  }
  await running
  await load.check()
  t.diagnostic(JSON.stringify({ landed: load.accepted.length, tried: load.judged.size }))
  assert.ok(load.judged.size > 0)
})

test('a server that is killed between any two steps of the queue goes on with it', async () => {
  await using folder = await temporaryFolder()
  const common = { SVC_ADMIN_TOKEN: newTokenString() }
  const start = (env = {}) => startService({ dataDir: folder.path, env: { ...common, ...env } })
  const nodes: Service[] = [await start()]
  const random = createRandom(seed)
  const load = createQueueLoad({
    ...{ random, nodes: () => nodes, clients: 4, perClient: toRounds(2), share: 0.2 },
  })
  await load.prepare()
  const running = load.run()
  for (const step of [...faultSteps.filter((one) => one.startsWith('queue.')), undefined]) {
    await nodes[0]?.end('SIGKILL')
    nodes[0] = await start(step && { SVC_FAULT_POINT: step })
    const ended = until('it was killed', () => step === undefined || nodes[0]?.hasEnded())
    await Promise.race([ended, running])
  }
  await running
  await load.check()
  await nodes[0]?.[Symbol.asyncDispose]()
})
