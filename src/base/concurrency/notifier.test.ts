import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as settled } from 'node:timers/promises'
import { createNotifier } from './notifier.ts'

const never = new AbortController().signal
const deadline = Number.POSITIVE_INFINITY

test('a waiter polls after each change of its name, until it finds something', async () => {
  const changes = createNotifier()
  const found = [undefined, undefined, 'it']
  let polls = 0
  const waiting = changes.until('run', { deadline, signal: never }, async () => found[polls++])
  await settled()
  changes.notify('another')
  await settled()
  assert.equal(polls, 1)
  changes.notify('run')
  await settled()
  changes.notify('run')
  assert.equal(await waiting, 'it')
})

test('a change during a poll is not missed', async () => {
  const changes = createNotifier()
  let isThere = false
  const found = await changes.until('run', { deadline, signal: never }, async () => {
    if (isThere) return 'it'
    isThere = true
    changes.notify('run')
    return undefined
  })
  assert.equal(found, 'it')
})

test('a wait ends at its deadline, and with its signal', async () => {
  const changes = createNotifier()
  const nothing = async () => undefined
  const soon = performance.now() + 10
  assert.equal(await changes.until('run', { deadline: soon, signal: never }, nothing), undefined)
  const gone = new AbortController()
  const waiting = changes.until('run', { deadline, signal: gone.signal }, nothing)
  await settled()
  gone.abort()
  assert.equal(await waiting, undefined)
})

test('a listener is called at each change until it is disposed', () => {
  const changes = createNotifier()
  let calls = 0
  const listening = changes.onChange('run', () => {
    calls += 1
  })
  changes.notify('run')
  changes.notify('another')
  listening[Symbol.dispose]()
  changes.notify('run')
  assert.equal(calls, 1)
})
