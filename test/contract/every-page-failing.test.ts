// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Problem } from '#base/problem.ts'
import type { JsonRoute } from '#http/route.ts'
import { readPage } from '../support/page-markup.ts'
import {
  actions,
  addressOf,
  newCookie,
  openPageSite,
  type PageSite,
  shown,
} from '../support/page-site.ts'

const detail = 'Only for the log: /srv/svc/data'

/** What an operation can throw, and what the page then says. */
const failures = [
  { error: new Error(detail), status: 500, retryAfter: null, advice: 'the log' },
  {
    error: new Problem('git_busy', 'Many wait.', { retryAfterSeconds: 7 }),
    status: 503,
    retryAfter: '7',
    advice: 'Try again in 7 seconds',
  },
  {
    error: new Problem('storage_unavailable', 'No disk.'),
    status: 503,
    retryAfter: null,
    advice: 'Try again in a moment',
  },
  {
    error: new Problem('too_many_requests', 'Slower.', { retryAfterSeconds: 61 }),
    status: 429,
    retryAfter: '61',
    advice: 'Try again in 61 seconds',
  },
  {
    error: new Problem('git_limit_exceeded', 'Git took longer than 10 seconds.'),
    status: 422,
    retryAfter: null,
    advice: 'smaller part',
  },
] as const

type Failure = (typeof failures)[number]

let site: PageSite

before(async () => {
  site = await openPageSite()
  const about = { description: 'known-description' }
  assert.equal((await site.admin.patch('/repos/site', about)).status, 200)
})

after(() => site[Symbol.asyncDispose]())

/** Makes operations fail until disposed: when they find what their path names, and at the latest when they are handled. */
function fail(operations: readonly string[], { error }: Failure): Disposable {
  const routes = site.routes.filter(
    (route): route is JsonRoute => route.kind === 'json' && operations.includes(route.operationId),
  )
  const former = routes.map(({ find, handle }) => ({ find, handle }))
  const reject = () => Promise.reject(error)
  for (const route of routes) Object.assign(route, { find: reject, handle: reject })
  return {
    [Symbol.dispose]: () => {
      for (const [index, route] of routes.entries()) Object.assign(route, former[index])
    },
  }
}

/** Records the operations that are called, until disposed. */
function recordCalls(called: string[]): Disposable {
  const routes = site.routes.filter((route): route is JsonRoute => route.kind === 'json')
  const former = routes.map(({ handle }) => handle)
  for (const [index, route] of routes.entries())
    route.handle = (request) => {
      called.push(route.operationId)
      return (former[index] as JsonRoute['handle'])(request)
    }
  return {
    [Symbol.dispose]: () => {
      for (const [index, route] of routes.entries()) Object.assign(route, { handle: former[index] })
    },
  }
}

/** Pages are limited by token, so each has one of its own. */
const openCookie = () => newCookie(site, { username: 'admin', permissions: ['admin'] })

async function visit(path: string, cookie: string, init: RequestInit = {}) {
  const headers = { cookie, ...(init.headers as Record<string, string>) }
  const response = await fetch(site.url + path, { ...init, headers, redirect: 'manual' })
  if (response.status < 400) await response.body?.cancel()
  const text = response.status < 400 ? '' : await response.text()
  return { status: response.status, headers: response.headers, text }
}

/** Fails unless an answer is the page of a failure, with nothing of a repository. */
function assertProblemPage(
  { status, headers, text }: Awaited<ReturnType<typeof visit>>,
  failure: Failure,
  path: string,
): void {
  assert.equal(status, failure.status, path)
  assert.equal(headers.get('retry-after'), failure.retryAfter, path)
  assert.equal(headers.get('content-type'), 'text/html; charset=utf-8', path)
  assert.match(headers.get('content-security-policy') ?? '', /default-src 'none'/, path)
  assert.deepEqual(readPage(text).faults, [], path)
  assert.equal(text.match(/<h1>/g)?.length, 1, path)
  assert.ok(text.includes(failure.advice), `${path} gives no advice: ${text}`)
  const known = [detail, 'known-description', 'site', ...Object.values(site.values)]
  for (const part of known) assert.ok(!text.includes(part), `${path} shows ${part}`)
}

test('a page whose operations fail says so, and what to do', async () => {
  for (const page of shown) {
    const cookie = await openCookie()
    for (const failure of failures) {
      using _ = fail(page.operations, failure)
      assertProblemPage(await visit(addressOf(page, site), cookie), failure, page.path)
    }
  }
})

test('a page calls only the operations that it lists', async () => {
  for (const page of shown) {
    const cookie = await openCookie()
    const called: string[] = []
    using _ = recordCalls(called)
    await visit(addressOf(page, site), cookie)
    const unlisted = called.filter(
      (operation) => !(page.operations as string[]).includes(operation),
    )
    assert.deepEqual(unlisted, [], page.path)
  }
})

test('a page with an operation that fails is shown without it, or says so', async () => {
  for (const page of shown) {
    const cookie = await openCookie()
    for (const [index, operation] of page.operations.entries()) {
      const failure = failures[index % failures.length] as Failure
      using _ = fail([operation], failure)
      const answer = await visit(addressOf(page, site), cookie)
      if (answer.status >= 400) assertProblemPage(answer, failure, `${page.path}: ${operation}`)
    }
  }
})

test('a form whose operation fails says so, and nothing has changed', async () => {
  const cookies = await Promise.all(actions.map(openCookie))
  const before = (await site.admin.get('/audit?limit=1')).body
  for (const [index, { path, operation }] of actions.entries()) {
    const cookie = cookies[index] ?? ''
    const address = path
      .replace(':name', 'site')
      .replace(':target*', 'main:.svc/workflows/ci.yml')
      .replaceAll(/:\w+\*?/g, '1')
    for (const failure of failures) {
      using _ = fail([operation], failure)
      const headers = { 'sec-fetch-site': 'same-origin' }
      const edit = { path: 'x', content: 'x', to: 'change' }
      const fields = { confirm: 'site', name: 'site', ...edit, head: site.values.commit ?? '' }
      const body = new URLSearchParams(fields)
      const answer = await visit(address, cookie, { method: 'POST', headers, body })
      assert.equal(answer.status, failure.status, `${path}: ${answer.text}`)
      assert.equal(answer.headers.get('retry-after'), failure.retryAfter, path)
    }
  }
  assert.deepEqual((await site.admin.get('/audit?limit=1')).body, before)
})

test('without the database there is a page that says so', async () => {
  await using here = await openPageSite()
  const cookie = await newCookie(here, { username: 'admin', permissions: ['admin'] })
  await here.db.destroy()
  for (const path of ['/', '/r/site', '/r/nope', '/-/nope']) {
    const response = await fetch(here.url + path, { headers: { cookie }, redirect: 'manual' })
    const text = await response.text()
    assert.equal(response.status, 503, path)
    assert.match(text, /<h1>Database unavailable<\/h1>/, path)
    assert.match(response.headers.get('content-security-policy') ?? '', /default-src 'none'/, path)
    assert.deepEqual(readPage(text).faults, [], path)
  }
})
