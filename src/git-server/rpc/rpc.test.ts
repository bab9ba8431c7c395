import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { Problem } from '#base/problem.ts'
import { connectRpc, type Functions, type Wire } from './rpc.ts'

type Calculator = {
  double: (value: number) => Promise<number>
  fail: (how: 'problem' | 'bug') => Promise<void>
  never: () => Promise<void>
}

test('functions are called remotely and concurrently, each with its own result', async () => {
  using pair = connect()
  const numbers = Array.from({ length: 100 }, (_, index) => index)
  const doubled = await Promise.all(numbers.map((number) => pair.remote.double(number)))
  assert.deepEqual(
    doubled,
    numbers.map((number) => number * 2),
  )
})

test('a Problem is rethrown as it was; a bug becomes an internal error, and is reported where it happened', async () => {
  using pair = connect()
  await assert.rejects(pair.remote.fail('problem'), (error) => {
    assert.ok(error instanceof Problem)
    assert.deepEqual(
      [error.code, error.message, error.retryAfterSeconds],
      ['git_busy', 'Later.', 7],
    )
    return true
  })
  assert.deepEqual(pair.faults, [])
  await assert.rejects(pair.remote.fail('bug'), (error) => {
    assert.ok(error instanceof Problem)
    assert.equal(error.code, 'internal_error')
    assert.doesNotMatch(error.message, /hush/)
    return true
  })
  assert.match(String(pair.faults), /hush/)
})

test('an unknown function is an error, even one of Object.prototype', async () => {
  using pair = connect()
  const { remote } = pair
  for (const name of ['absent', 'toString', 'constructor']) {
    await assert.rejects((remote as unknown as Functions)[name]?.() ?? Promise.resolve(), Problem)
  }
})

test('calls to a process that has exited fail, pending and later ones', async () => {
  using pair = connect()
  const asked = pair.remote.never()
  pair.close()
  await assert.rejects(asked, /has exited/)
  await assert.rejects(pair.remote.double(1), /has exited/)
})

function connect() {
  const { port1, port2 } = new MessageChannel()
  const faults: unknown[] = []
  const calculator: Calculator = {
    double: async (value) => value * 2,
    async fail(how) {
      if (how === 'bug') throw new Error('hush')
      throw new Problem('git_busy', 'Later.', { retryAfterSeconds: 7 })
    },
    never: () => new Promise(() => {}),
  }
  connectRpc({
    wire: wireTo(port1),
    local: calculator,
    onFault: (error) => void faults.push(error),
  })
  const client = connectRpc<Calculator>({ wire: wireTo(port2), local: {}, onFault() {} })
  return {
    ...client,
    faults,
    [Symbol.dispose]() {
      port1.close()
    },
  }
}

function wireTo(port: MessagePort): Wire {
  return {
    send: (message) => port.postMessage(message),
    onMessage: (take) => void port.on('message', take),
  }
}
