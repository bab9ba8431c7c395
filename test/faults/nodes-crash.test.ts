// Tags: exhaustive
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createCommitPool } from '../support/commit-pool.ts'
import { until } from '../support/condition.ts'
import { git } from '../support/git.ts'
import { createNodesLoad } from '../support/nodes-load.ts'
import { openNodesSite } from '../support/nodes-site.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { familyOf, signal } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { createRandom, type Random } from '../support/random.ts'
import { startReceiver } from '../support/receiver.ts'
import { toRounds } from '../support/rounds.ts'
import type { Service } from '../support/service.ts'

const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)
const wantedKills = Number(process.env.SVC_KILLS ?? toRounds(2))
const commitsPerKill = 60
const clients = 5
// The doctor would warn, but nothing may depend on it.
const clocksAhead = [0, 10, -10]
const maxSilenceMs = 3000
const repositories = ['first', 'second', 'third']
const hooked = 'first'

type Site = Awaited<ReturnType<typeof openNodesSite>>
type Network = Site['networks'][number]
type Fault = (site: Site, random: Random) => Promise<void>

const skip = without('postgres') || without('faketime') || withoutObjectStore

test(`nodes that are killed, paused and emptied lose no push, and show none too late (SVC_CRASH_SEED=${seed})`, {
  skip,
}, async (t) => {
  const random = createRandom(seed)
  await using commits = await createCommitPool(wantedKills * commitsPerKill)
  await using receiver = await startReceiver()
  await using site = await openNodesSite(3, {
    clocksAhead,
    env: {
      SVC_MAINTENANCE_PUSHES: '10',
      SVC_WEBHOOK_RETRY_SCHEDULE: '0,1,1,1,1,5,5,5',
    },
  })
  const [first] = site.nodes
  for (const name of repositories) await first?.admin.post('/repos', { name })
  const hook = { url: receiver.url, events: ['push'] }
  assert.equal((await first?.admin.post(`/repos/${hooked}/webhooks`, hook))?.status, 201)
  const load = createNodesLoad({ random, commits, nodes: site.nodes, repositories })
  const running = load.run(clients)
  const failed = running.then(
    () => undefined,
    (error: unknown) => error,
  )
  const done: Record<string, number> = {}
  for (let round = 0; site.restarts() < wantedKills; round++) {
    const before = load.counts.acknowledged
    await until('pushes are acknowledged', async () => {
      const error = await Promise.race([failed, sleep(10)])
      if (error !== undefined) throw error
      return load.counts.acknowledged >= before + 3
    })
    const name = pickFault(round, random)
    done[name] = (done[name] ?? 0) + 1
    await faults[name](site, random)
  }
  load.end()
  await running
  t.diagnostic(JSON.stringify({ kills: site.restarts(), ...load.counts, ...done }))
  await checkAll(t, site, load)
  const wanted = load.acknowledged.filter(({ repository }) => repository === hooked)
  await until('each push has been delivered', () => {
    const delivered = new Set(receiver.received.map(({ json }) => `${json.ref} ${json.after}`))
    return wanted.every(({ ref, after }) => delivered.has(`${ref} ${after}`))
  })
})

const often = ['kill', 'kill', 'kill', 'kill', 'kill', 'git'] as const
const networkFaults = ['cut', 'silence', 'lose'] as const

/** Kills most often, and everything else again and again. */
function pickFault(round: number, random: Random): keyof typeof faults {
  if (round % 20 === 13) return 'database'
  if (round % 20 === 17) return 'storage'
  return random.pick([...often, ...often, ...networkFaults, 'pause'])
}

const faults = {
  /** Ends some nodes in the middle of anything, and starts them again, perhaps without their caches. */
  async kill(site, random) {
    const killed = [...site.nodes.keys()].filter(() => random.chance(0.6))
    await Promise.all(
      killed.map(async (index) => {
        await site.nodes[index]?.end('SIGKILL')
        await site.restart(index, { isEmpty: random.chance(0.4) })
      }),
    )
  },

  /** Ends one of the processes that a node has started. */
  async git(site, random) {
    const node = random.pick(site.nodes as [Service, ...Service[]])
    const [any, ...others] = familyOf(node.pid).filter((pid) => pid !== node.pid)
    if (any !== undefined) signal(random.pick([any, ...others]), 'SIGKILL')
  },

  /** Stops a node so long that others must go on without it, and lets it go on then. */
  async pause(site, random) {
    const { pid } = random.pick(site.nodes as [Service, ...Service[]])
    signal(pid, 'SIGSTOP')
    await sleep(random.below(1500))
    signal(pid, 'SIGCONT')
  },

  /** Resets the connections of a node to one of its stores. */
  async cut({ networks }, random) {
    const { postgres, storage } = random.pick(networks as [Network, ...Network[]])
    random.pick([postgres, storage ?? postgres]).cut()
  },

  /** Swallows all that a node sends to one of its stores, and the answers, for a while. */
  async silence({ networks }, random) {
    const { postgres, storage } = random.pick(networks as [Network, ...Network[]])
    const resume = random.pick([postgres, storage ?? postgres]).swallow()
    await sleep(random.below(maxSilenceMs))
    resume()
  },

  /** Lets a transaction be committed whose node does not hear of it. */
  async lose({ networks }, random) {
    random.pick(networks as [Network, ...Network[]]).postgres.loseAnswerTo('commit\0')
  },

  async database({ postgres }) {
    postgres.halt()
    postgres.resume()
  },

  /** Ends one of the processes that store objects; each object is also stored by another one. */
  async storage({ osds }) {
    const running = osds.filter((osd) => osd.exitCode === null && osd.signalCode === null)
    // One must be left, and those that run need time to copy what they alone have.
    if (running.length > 2) running[0]?.kill('SIGKILL')
  },
} satisfies Record<string, Fault>

/** Compares what the load knows with a node that has nothing but the stores. */
async function checkAll(
  t: TestContext,
  site: Site,
  load: ReturnType<typeof createNodesLoad>,
): Promise<void> {
  const fresh = await site.add()
  const events = await listEvents(fresh)
  assert.deepEqual(
    events.map(({ seq }) => seq),
    events.map((_, index) => index + 1),
    'events have no gap',
  )
  for (const repository of repositories) {
    const clone = `${site.folder}/clone-${repository}`
    await git('/', ['clone', '--quiet', '--mirror', fresh.admin.remote(repository), clone])
    await git(clone, ['fsck', '--strict', '--full'])
    const { stdout } = await git(clone, ['for-each-ref', '--format=%(refname) %(objectname)'])
    const refs = new Map(stdout.split('\n').map((line) => line.split(' ') as [string, string]))
    const pushes = events.filter((event) => event.kind === 'push' && event.repoName === repository)
    for (const ref of new Set(pushes.map(({ data }) => data.ref))) {
      const chain = pushes.filter(({ data }) => data.ref === ref).map(({ data }) => data)
      for (const [index, { before }] of chain.entries()) {
        assert.equal(before, chain[index - 1]?.after ?? '0'.repeat(40), `${ref} is a chain`)
      }
      assert.equal(refs.get(ref), chain.at(-1)?.after, `${ref} is what its last event says`)
    }
    for (const one of load.acknowledged.filter((entry) => entry.repository === repository)) {
      const events = pushes.filter(({ data }) => data.ref === one.ref && data.after === one.after)
      assert.equal(events.length, 1, `${one.ref} became ${one.after} once`)
    }
    for (const own of load.refs.filter((entry) => entry.repository === repository)) {
      const possible = [own.acknowledged ?? '', ...own.unknown]
      assert.ok(possible.includes(refs.get(own.ref) ?? ''), `${own.ref} is not what it may be`)
    }
  }
  t.diagnostic(`${events.length} events`)
}

type ListedEvent = {
  seq: number
  kind: string
  repoName: string
  data: { ref: string; before: string; after: string }
}

async function listEvents({ admin }: Service): Promise<ListedEvent[]> {
  const all: ListedEvent[] = []
  for (;;) {
    const { body } = await admin.get(`/events?after=${all.at(-1)?.seq ?? 0}&limit=1000`)
    if (body.length === 0) return all
    all.push(...body)
  }
}
