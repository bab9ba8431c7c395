import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { exhaustive } from '../../../../test/support/exhaustive.ts'
import { connectRun, RunLostError } from '../run-connection.ts'
import { createServerClient } from '../server-client.ts'
import { createLeaseThread } from './lease-thread.ts'

const leaseSeconds = 5
const blockedMs = 7000

test(
  'a runner whose event loop is busy for longer than a lease keeps its runs',
  exhaustive,
  async () => {
    await using site = await startSite()
    site.hold()
    await site.polled(1)
    const before = site.polls()
    // Nothing else happens in this thread meanwhile.
    const until = performance.now() + blockedMs
    while (performance.now() < until) site.waitForPoll()
    assert.ok(site.polls() > before)
    await new Promise((resolve) => setTimeout(resolve, 50))
    assert.equal(site.connection.lost.aborted, false)
    assert.deepEqual(site.errors, [])
  },
)

test('a cancellation, and the loss of a run, are heard from the thread', async () => {
  await using site = await startSite()
  site.hold()
  site.respond('cancel')
  await site.heard(site.orders)
  assert.deepEqual(site.orders[0], { cancel: 'by ada', kill: false })
  site.respond('lost')
  await site.heard(site.errors)
  assert.ok(site.errors[0] instanceof RunLostError)
  assert.match(site.errors[0].message, /^The server took the run away: Gone\.$/)
})

test('a run that has ended is not polled, and a lost one is not heard of any more', async () => {
  await using site = await startSite()
  const end = site.hold()
  await site.polled(1)
  end.abort()
  site.respond('lost')
  site.hold()
  await site.heard(site.errors)
  assert.equal(site.errors.length, 1)
})

/** A server in a thread of its own, so that it serves while the thread of the test is blocked. */
const program = `
import { createServer } from 'node:http'
import { parentPort, workerData } from 'node:worker_threads'
const state = new Int32Array(workerData)
const server = createServer((_, response) => {
  Atomics.add(state, 0, 1)
  Atomics.notify(state, 0)
  const mode = Atomics.load(state, 1)
  if (mode === 2) {
    response.writeHead(404, { 'content-type': 'application/problem+json' })
    response.end('{"code":"run_not_found","detail":"Gone."}')
  } else response.end(JSON.stringify({ cancel: mode === 1 ? 'by ada' : null }))
})
server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
`

async function startSite() {
  const state = new Int32Array(new SharedArrayBuffer(8))
  const server = new Worker(new URL(`data:text/javascript,${encodeURIComponent(program)}`), {
    workerData: state.buffer,
  })
  const [port] = await once(server, 'message')
  const url = new URL(`http://127.0.0.1:${port}`)
  const client = createServerClient(url)
  const held = { runId: 'r1', claimToken: 'secret', leaseSeconds }
  const connection = connectRun({ client, held })
  const thread = createLeaseThread(url)
  const errors: unknown[] = []
  const orders: unknown[] = []
  const waiting = async (isOver: () => boolean) => {
    while (!isOver()) await new Promise((resolve) => setTimeout(resolve, 10))
  }
  return {
    ...{ connection, errors, orders },
    polls: () => Atomics.load(state, 0),
    polled: (count: number) => waiting(() => Atomics.load(state, 0) >= count),
    heard: (list: unknown[]) => waiting(() => list.length > 0),
    waitForPoll: () => Atomics.wait(state, 0, Atomics.load(state, 0), 100),
    respond: (how: 'cancel' | 'lost') => Atomics.store(state, 1, how === 'cancel' ? 1 : 2),
    hold() {
      const end = new AbortController()
      thread.hold(held, {
        connection,
        onCancellation: (order) => orders.push(order),
        onError: (error) => errors.push(error),
        signal: end.signal,
      })
      return end
    },
    async [Symbol.asyncDispose]() {
      connection[Symbol.dispose]()
      client.close()
      await thread[Symbol.asyncDispose]()
      await server.terminate()
    },
  }
}
