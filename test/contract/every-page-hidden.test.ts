// Tags: exhaustive
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { type IncomingMessage, type RequestOptions, request } from 'node:http'
import { text as textOf } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import type { JsonRoute } from '#http/route.ts'
import { logIn } from '../support/page-client.ts'
import {
  actions,
  addressOf,
  allPermissions,
  openPageSite,
  type PageSite,
  shown,
} from '../support/page-site.ts'

/** A repository of another user, one that was deleted, and one that never was; each of the same length. */
const names = ['site', 'gone', 'nope'] as const

let site: PageSite

/** The work for a request: statements without their values, and operations that went beyond finding their repository. */
type Work = { statements: string[]; handled: string[] }

const work = new AsyncLocalStorage<Work>()
let last: Work = { statements: [], handled: [] }
const onRequest = () => {
  last = { statements: [], handled: [] }
  work.enterWith(last)
}
// They are left out while another request writes.
const ofStamps = /^(?:pragma data_version|select total_changes\(\))/
const onQuery = (message: unknown) => {
  const { sql } = message as { sql: string }
  if (ofStamps.test(sql)) return
  work.getStore()?.statements.push(sql.replace(/'(?:[^']|'')*'|\b\d+(?:\.\d+)?\b/g, '?'))
}

before(async () => {
  site = await openPageSite()
  for (const name of ['own', 'gone']) await site.admin.post('/repos', { name })
  assert.equal((await site.admin.delete('/repos/gone')).status, 204)
  for (const route of site.routes) if (route.kind === 'json') note(route)
  subscribe('http.server.request.start', onRequest)
  subscribe('sqlite.db.query', onQuery)
})

after(async () => {
  unsubscribe('http.server.request.start', onRequest)
  unsubscribe('sqlite.db.query', onQuery)
  await site[Symbol.asyncDispose]()
})

/** Notes each call of the handler of a route. */
function note(route: JsonRoute): void {
  const { handle, operationId } = route
  route.handle = (context) => {
    work.getStore()?.handled.push(operationId)
    return handle(context)
  }
}

// Metrics are of all repositories.
const permissions = allPermissions.filter((permission) => permission !== 'metrics:read')

/** Cookies of callers who see none of the repositories; one for each name, for as many pages as a token may open. */
async function cookiesOf(kind: 'stranger' | 'limited token of the owner') {
  const limits =
    kind === 'stranger' ? { username: 'stranger' } : { username: 'admin', repositories: ['own'] }
  const body = { name: 'x', permissions, ...limits }
  const open = async () => {
    const { status, body: made } = await site.admin.post('/tokens', body)
    assert.equal(status, 201, made.detail)
    const { token } = made
    return (await logIn(site.url, token)).cookie()
  }
  return { site: await open(), gone: await open(), nope: await open() }
}

type Cookies = Awaited<ReturnType<typeof cookiesOf>>

const pagesOfToken = 4
const maxAttempts = 5
const pagesOfRepositories = shown.filter(({ path }) => path.startsWith('/r/'))
const formsOfRepositories = actions.filter(({ path }) => path.startsWith('/r/'))
const kinds = ['stranger', 'limited token of the owner'] as const

/**
 * The whole answer, and what was done for it, without the name that was asked for, the hash of a text with it, and ages.
 * Headers and body are sent in one write: for a body that comes later, the caller is admitted again.
 */
async function answerTo(path: string, name: string, options: RequestOptions, body?: string) {
  const sent = request(site.url + path, options).end(body)
  const [response]: IncomingMessage[] = await once(sent, 'response')
  assert.ok(response)
  const { statusCode: status, headers } = response
  const text = await textOf(response)
  const ages = /(?<=<time [^>]*>)[^<]+/g
  const without = (value: string) => value.replaceAll(name, 'NAME').replace(ages, 'AGE')
  const done = last
  return {
    status,
    headers: Object.entries(headers)
      .filter(([key]) => !['date', 'etag', 'x-request-id'].includes(key))
      .map(([key, value]) => [key, without(String(value))]),
    text: without(text),
    handled: done.handled,
    // Of reads at the same time either may be first.
    statements: done.statements.toSorted(),
  }
}

/**
 * Fails unless all names get the same answer by the same work, the first time and later. While another request writes,
 * more is read, and read again: how often counts only later, and in one of some attempts.
 */
async function assertAlike(
  cookies: Cookies,
  template: string,
  pathOf: (name: string) => string,
  formOf?: (name: string) => URLSearchParams,
) {
  const answersOf = async () => {
    const answers = []
    for (const name of names) {
      const cookie = cookies[name]
      // Compressed, a name of the same length may take more or less.
      const headers = { cookie, 'sec-fetch-site': 'same-origin', 'accept-encoding': 'identity' }
      const form = formOf && {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded' },
      }
      const body = formOf?.(name).toString()
      answers.push(await answerTo(pathOf(name), name, form ?? { headers }, body))
    }
    return answers
  }
  const first = await answersOf()
  assertEqual(
    first.map((answer) => ({ ...answer, statements: [...new Set(answer.statements)] })),
    template,
  )
  for (let attempt = 1; ; attempt++) {
    const answers = await answersOf()
    const isAlike = answers.every((answer) => isDeepStrictEqual(answer, answers[0]))
    if (!isAlike && attempt < maxAttempts) continue
    return assertEqual(answers, template)
  }
}

function assertEqual(answers: Awaited<ReturnType<typeof answerTo>>[], template: string): void {
  const [hidden, ...others] = answers
  for (const other of others) assert.deepEqual(hidden, other, template)
  assert.notEqual(hidden?.statements.length, 0, template)
  if (!template.startsWith('/r/')) return
  assert.equal(hidden?.status, 404, template)
  assert.deepEqual(hidden.handled, [], template)
}

for (const kind of kinds) {
  test(`pages of a repository that is invisible, deleted or absent are alike in bytes and work: ${kind}`, async () => {
    let cookies = await cookiesOf(kind)
    for (const [index, page] of pagesOfRepositories.entries()) {
      if (index % pagesOfToken === 0) cookies = await cookiesOf(kind)
      await assertAlike(cookies, page.path, (name) => addressOf(page, site, name))
    }
    for (const path of [
      '/?q=',
      '/-/events?repository=',
      '/-/trust-rules?repository=',
      '/-/new?name=',
    ])
      await assertAlike(cookies, path, (name) => path + name)
  })

  test(`forms of a repository that is invisible, deleted or absent are alike in bytes and work: ${kind}`, async () => {
    const { commit = '' } = site.values
    const fields = {
      ...{ name: 'x', url: 'http://127.0.0.1:9/', events: 'push', pattern: 'x' },
      ...{ ref: 'refs/heads/x', expected: commit, target: commit, username: 'x', value: 'x' },
    }
    let cookies = await cookiesOf(kind)
    for (const [index, { path }] of formsOfRepositories.entries()) {
      if (index % pagesOfToken === 0) cookies = await cookiesOf(kind)
      const address = path.replaceAll(/(?<!r\/):\w+\*?/g, '1')
      const pathOf = (name: string) => address.replace(':name', name)
      const formOf = (name: string) => new URLSearchParams({ ...fields, confirm: name })
      await assertAlike(cookies, path, pathOf, formOf)
    }
  })
}
