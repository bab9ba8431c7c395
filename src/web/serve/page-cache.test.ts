import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Problem } from '#base/problem.ts'
import { cachedPage, type PageContext } from '../page.ts'
import { PageTime } from '../page-time.ts'
import type { ReadOperation } from '../read-operations.ts'
import { html } from '../render/html.ts'
import { createPageCache } from './page-cache.ts'
import { createReaders, type PageCall } from './page-context.ts'

const minute = 60_000
const caller = { username: 'ada' }
const problem = new Problem('invalid_request', 'A field needs another value.')
/** What of a request is its caller's own. */
const ownNames = ['caller', 'session', 'now', 'problem', 'fields', 'ifNoneMatch', 'requestId']

/** A page that reads some operations, and calls of them whose results can be changed. */
function startPage({
  reads = ['getTree'],
  operation = undefined as string | undefined,
  age = 5 * minute,
  maxBytes = 1e6,
} = {}) {
  const results: Record<string, unknown> = { getTree: 'tree', listRuns: 'runs' }
  const created: string[] = []
  const calls: string[] = []
  let isProvisional = false
  let asked = 0
  const page = cachedPage('/r/:name', ['getTree'], {
    weight: 'git',
    audience: 'code',
    async show(context) {
      const { read, tryRead, time, markProvisional, url } = context
      for (const name of ownNames) assert.ok(!(name in context), name)
      const [first = 'getTree', ...others] = reads as ReadOperation[]
      const values = [await read(first), ...(await Promise.all(others.map((one) => tryRead(one))))]
      if (operation !== undefined) values.push(await context.may(operation))
      if (isProvisional) markProvisional()
      created.push(url)
      return { title: 'Page', body: html`${JSON.stringify(values)} ${time.age(10 * minute - age)}` }
    },
  })
  let stamp: string | undefined
  const show = createPageCache({ maxBytes, stampOf: async () => stamp })
  return {
    results,
    created,
    calls,
    asked: () => asked,
    markProvisional() {
      isProvisional = true
    },
    setStamp(set: string | undefined) {
      stamp = set
    },
    /** The text of the page, without tags. */
    async read({
      url = '/r/a',
      now = 10 * minute,
      isLoggedIn = true,
      own = results,
      session = 'ada',
      isWriter = false,
    } = {}) {
      const call: PageCall = async (operation, input) => {
        const value = own[operation]
        if (value instanceof Error) throw value
        const etag = `"${value}"`
        const isKnown = input?.ifNoneMatch?.includes(etag) === true
        calls.push(isKnown ? `${operation} 304` : operation)
        return {
          status: isKnown ? 304 : 200,
          headers: { etag },
          value: isKnown ? undefined : value,
        }
      }
      const context = {
        ...createReaders(call),
        ...{ baseUrl: 'http://a', url, isLoggedIn, time: new PageTime(now) },
        ...{
          async may(wanted: string) {
            asked += 1
            return isWriter && wanted === operation
          },
          caller,
          session: { id: session },
          params: { name: 'a' },
          problem,
          fields: new URLSearchParams(),
          ifNoneMatch: '*',
          requestId: '1',
        },
      }
      // The page uses no more of it.
      const view = await show(page, context as unknown as PageContext)
      assert.ok('body' in view)
      const text = 'bytes' in view.body ? view.body.bytes.toString() : view.body.text
      return text.replace(/<[^>]*>/g, '').replaceAll('&quot;', '')
    },
  }
}

test('a page is created once as long as the results of its operations are the same', async () => {
  const { read, created, calls, results } = startPage()
  assert.equal(await read(), '[tree] 5 minutes ago')
  assert.equal(await read(), '[tree] 5 minutes ago')
  assert.deepEqual([created.length, calls], [1, ['getTree', 'getTree 304']])
  results.getTree = 'other'
  assert.equal(await read(), '[other] 5 minutes ago')
  assert.equal(created.length, 2)
})

test('what a page reads is not repeated for its reader while the stamp of the repository is the same', async () => {
  const { read, created, calls, results, setStamp } = startPage()
  setStamp('1')
  await read()
  await read()
  assert.deepEqual(calls.splice(0), ['getTree'])
  await read({ session: 'grace' })
  await read({ session: 'grace' })
  assert.deepEqual(calls.splice(0), ['getTree 304'])
  setStamp('2')
  await read()
  assert.deepEqual(calls.splice(0), ['getTree 304'])
  results.getTree = 'other'
  setStamp('3')
  assert.equal(await read(), '[other] 5 minutes ago')
  assert.equal(created.length, 2)
  // Not known.
  setStamp(undefined)
  calls.length = 0
  await read()
  await read()
  assert.deepEqual(calls, ['getTree 304', 'getTree 304'])
})

test('pages of other addresses, and of readers without a session, are others', async () => {
  const { read, created } = startPage()
  await read()
  await read({ url: '/r/a?x' })
  await read({ isLoggedIn: false })
  assert.equal(created.length, 3)
})

test('readers with different rights have pages of their own, which do not replace one another', async () => {
  const { read, created, results } = startPage({ reads: ['getTree', 'listRuns'] })
  const denied = new Problem('permission_missing', 'It requires workflow:read.')
  const stranger = { ...results, getTree: new Problem('repository_not_found', 'There is none.') }
  const reader = { ...results, listRuns: denied }
  for (let round = 0; round < 3; round++) {
    assert.equal(await read(), '[tree,runs] 5 minutes ago')
    assert.equal(await read({ own: reader }), '[tree,null] 5 minutes ago')
    await assert.rejects(read({ own: stranger }), { code: 'repository_not_found' })
  }
  assert.equal(created.length, 2)
})

test('what a reader may is asked again for each reader, and decides which page it gets', async () => {
  const { read, created, asked } = startPage({ operation: 'createCommit' })
  for (let round = 0; round < 3; round++) {
    assert.equal(await read(), '[tree,false] 5 minutes ago')
    assert.equal(await read({ isWriter: true }), '[tree,true] 5 minutes ago')
  }
  assert.deepEqual([created.length, asked()], [2, 7])
})

test('a page is created again when one of its ages has other words', async () => {
  const { read, created } = startPage()
  await read()
  await read({ now: 11 * minute - 1 })
  assert.equal(created.length, 1)
  assert.equal(await read({ now: 11 * minute }), '[tree] 6 minutes ago')
  // A clock that was set back.
  assert.equal(await read({ now: 10 * minute }), '[tree] 5 minutes ago')
  assert.equal(created.length, 3)
})

test('nothing is cached that would be more complete later, or without memory', async () => {
  const provisional = startPage()
  provisional.markProvisional()
  const small = startPage({ maxBytes: 0 })
  for (const { read, created } of [provisional, small]) {
    await read()
    await read()
    assert.equal(created.length, 2)
  }
})
