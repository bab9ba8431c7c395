import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from './condition.ts'
import { createProject, git } from './git.ts'
import type { Random } from './random.ts'
import type { Service } from './service.ts'

type Node = Pick<Service, 'admin'>
type Kind = 'good' | 'broken' | 'flaky'

type Options = {
  random: Random
  /** The nodes at present, any of which may be killed at any moment. */
  nodes: () => readonly Pick<Service, 'admin'>[]
  clients: number
  /** How many changes each client lands, one after the other. */
  perClient: number
  /** The share of changes that always fail, and of those that fail at first. */
  share: number
  /** How long what judges a commit takes, in milliseconds. */
  judgesForMs?: number
  /** The name of the repository. */
  name?: string
}

type Landed = { number: number; file: string; kind: Kind }

/** Clients that land changes through the queue of a branch, and a CI outside that judges its commits. */
export function createQueueLoad(options: Options) {
  const { random, nodes, clients, perClient, share, judgesForMs = 0, name = 'site' } = options
  const repository = `/repos/${name}`
  const accepted: Landed[] = []
  const judged = new Map<string, 'success' | 'failure'>()
  const seen = new Set<string>()
  let hasEnded = false
  let queued = new Set<number>()
  let looks = 0

  /** Calls any node until one answers; `retries` says which other answers are not final. */
  async function call(
    method: string,
    path: string,
    body?: object,
    isFinal: (status: number) => boolean = (status) => status < 500,
  ) {
    for (;;) {
      const node = random.pick(nodes() as [Node, ...Node[]])
      const answer = await node.admin.call(method, path, body).catch(() => undefined)
      if (answer && isFinal(answer.status) && answer.status !== 429) return answer
      await sleep(50)
    }
  }

  async function landOne(client: number, index: number): Promise<void> {
    const kind: Kind = random.chance(share) ? 'broken' : random.chance(share) ? 'flaky' : 'good'
    const file = `${kind}-${client}-${index}`
    const changes = [{ path: file, content: file }]
    const made = { branch: file, start: 'main', message: `Add ${file}`, changes }
    // It may be there already, by a request without an answer.
    const committed = await call('POST', `${repository}/commits`, made)
    assert.ok([201, 409].includes(committed.status), JSON.stringify(committed.body))
    const listed = `${repository}/changes?source=${file}`
    await call('POST', `${repository}/changes`, { source: file, target: 'main' })
    const number = (await call('GET', listed)).body[0]?.number
    assert.ok(number, `${file} is not proposed.`)
    const land = `${repository}/changes/${number}/land`
    for (;;) {
      const { status, body } = await call('POST', land, { method: 'merge' })
      assert.ok(status === 200 || body.code === 'change_closed', JSON.stringify(body))
      const after = looks
      // A look at the queue costs the server less than one at each change.
      await until(`${file} leaves the queue`, () => looks > after + 1 && !queued.has(number))
      const { body: change } = await call('GET', `${repository}/changes/${number}`)
      if (change.queued !== null) continue
      if (change.state === 'landed' || kind === 'broken') {
        accepted.push({ number, file, kind })
        return
      }
      // A flaky one may have failed twice; a node may have been killed between two answers.
      await sleep(20)
    }
  }

  /** Judges the commits of the queue by their files, until the load has ended. */
  async function judge(): Promise<void> {
    await using project = await createProject()
    while (!hasEnded) {
      const { body } = await call('GET', `${repository}/queue`)
      const [queue] = body
      queued = new Set(queue?.changes.map(({ number }: { number: number }) => number))
      looks++
      for (const trial of queue?.trials ?? []) {
        if (judged.has(trial.commit)) continue
        const node = random.pick(nodes() as [Node, ...Node[]])
        const names = await git(project.path, ['fetch', '-q', node.admin.remote(name), trial.ref])
          .then(() => git(project.path, ['ls-tree', '--name-only', trial.commit]))
          .then(
            ({ stdout }) => stdout.split('\n'),
            () => undefined,
          )
        if (!names) continue
        const flaky = names.filter((name) => name.startsWith('flaky-') && !seen.has(name))
        const isBad = flaky.length > 0 || names.some((name) => name.startsWith('broken-'))
        if (trial.changes.length === 1) for (const name of flaky) seen.add(name)
        const state = isBad ? 'failure' : 'success'
        judged.set(trial.commit, state)
        const path = `${repository}/commits/${trial.commit}/statuses`
        void sleep(judgesForMs).then(() => call('POST', path, { context: 'ci', state }))
      }
      await sleep(20)
    }
  }

  return {
    accepted,
    judged,

    /** Makes the repository with its queue. */
    async prepare(): Promise<void> {
      await call('POST', '/repos', { name })
      const changes = [{ path: 'readme', content: 'Begin' }]
      await call('POST', `${repository}/commits`, { branch: 'main', message: 'Begin', changes })
      const requires = [{ status: 'ci' }]
      await call('PUT', `${repository}/protections/branches/main`, { queue: true, requires })
    },

    async run(): Promise<void> {
      const judging = judge()
      const all = Array.from({ length: clients }, async (_, client) => {
        for (let index = 0; index < perClient; index++) await landOne(client, index)
      })
      await Promise.all(all)
      hasEnded = true
      await judging
    },

    /** Compares the journal, the events and the branch with what the clients know. */
    async check(): Promise<void> {
      const pushes = await all(`${repository}/pushes?ref=refs/heads/main`)
      const [first, ...queued] = pushes.toReversed()
      let tip = first?.refs[0]?.after
      for (const { via, refs } of queued) {
        const [update] = refs
        assert.equal(via, 'queue')
        assert.equal(update.before, tip)
        tip = update.after
        assert.equal(judged.get(tip), 'success', `main was at ${tip}, which was not tried`)
      }
      const { body: branch } = await call('GET', `${repository}/commits/main`)
      assert.equal(branch.id, tip)
      const events = (await all('/events')).filter(
        ({ kind, repoName }) => kind === 'change.landed' && repoName === name,
      )
      const landed = events.map(({ data }) => data.number)
      assert.equal(new Set(landed).size, landed.length, 'A change has landed twice.')
      const good = accepted.filter(({ kind }) => kind !== 'broken').map(({ number }) => number)
      assert.deepEqual(new Set(landed), new Set(good))
      const ids = new Set(queued.map(({ id }) => id))
      assert.ok(events.every(({ data }) => data.pushId === null || ids.has(data.pushId)))
      await using project = await createProject()
      const remote = (nodes()[0] as Node).admin.remote(name)
      await git(project.path, ['fetch', '-q', remote, 'main'])
      const { stdout } = await git(project.path, ['ls-tree', '--name-only', 'FETCH_HEAD'])
      const files = stdout.split('\n').filter((name) => name !== '' && name !== 'readme')
      const wanted = accepted.filter(({ kind }) => kind !== 'broken').map(({ file }) => file)
      assert.deepEqual(files.sort(), wanted.sort())
    },
  }

  /** All pages of a list. */
  async function all(path: string) {
    const rows = []
    for (let next: string | undefined = path; next !== undefined; ) {
      const { body, headers } = await call('GET', next)
      // The log of events has a next page at any time.
      if (body.length === 0) break
      rows.push(...body)
      const link: string | undefined = headers.get('link')?.match(/<([^>]*)>; rel="next"/)?.[1]
      next = link && new URL(link, 'http://svc').pathname + new URL(link, 'http://svc').search
    }
    return rows
  }
}
