// Tags: each-store

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { packet } from '#git/protocol/pkt-line.ts'
import { createProject, type Project } from '../support/git.ts'
import { objectFormat } from '../support/object-format.ts'
import { connectRaw, parseAnswer } from '../support/raw-http.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service
let project: Project
let authorization: string

const list = Buffer.concat([
  packet('command=ls-refs\n'),
  packet(`object-format=${objectFormat}\n`),
  Buffer.from('0001'),
  ...['peel\n', 'symrefs\n'].map(packet),
  Buffer.from('0000'),
])
const listType = 'application/x-git-upload-pack-request'

before(async () => {
  service = await startService()
  project = await createProject()
  const { admin, adminToken } = service
  authorization = `Basic ${Buffer.from(`git:${adminToken}`).toString('base64')}`
  await admin.post('/repos', { name: 'site' })
  await project.commit('a.txt')
  await project.git('push', '--quiet', admin.remote('site'), 'main')
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

/** A whole request, as bytes. */
function toBytes(line: string, body?: Buffer, more: Record<string, string> = {}): Buffer {
  const headers = Object.entries({
    host: new URL(service.url).host,
    authorization,
    'git-protocol': 'version=2',
    ...(body && { 'content-type': listType, 'content-length': body.length }),
    ...more,
  })
  const head = headers.map((pair) => `${pair.join(': ')}\r\n`).join('')
  return Buffer.concat([Buffer.from(`${line} HTTP/1.1\r\n${head}\r\n`), body ?? Buffer.alloc(0)])
}

/** Sends bytes in pieces, each of which arrives by itself; the first answer. */
async function ask(...pieces: Buffer[]) {
  using connection = await connectRaw(service.url)
  connection.socket.setNoDelay()
  for (const piece of pieces) {
    if (!connection.socket.write(piece)) await once(connection.socket, 'drain')
    await turn()
  }
  return await connection.answer()
}

const listing = () => toBytes('POST /repos/site.git/git-upload-pack', list)
const offer = (name = 'site.git') => toBytes(`GET /repos/${name}/info/refs?service=git-upload-pack`)

test('ls-refs has the same response for any chunking, compression and framing of the request', async () => {
  const whole = listing()
  const { status, body } = await ask(whole)
  assert.equal(status, 200)
  assert.match(body, /HEAD symref-target:refs\/heads\/main/)
  const bodyAt = whole.length - list.length
  const cuts = [1, 40, bodyAt - 2, bodyAt, bodyAt + 1, bodyAt + 20, whole.length - 1]
  for (const at of cuts) {
    const answer = await ask(whole.subarray(0, at), whole.subarray(at))
    assert.deepEqual([answer.status, answer.body], [status, body], `cut at ${at}`)
  }
  const line = 'POST /repos/site.git/git-upload-pack'
  const zipped = await ask(toBytes(line, gzipSync(list), { 'content-encoding': 'gzip' }))
  assert.equal(zipped.body, body)
  const framed = Buffer.from(`${list.length.toString(16)}\r\n${list}\r\n0\r\n\r\n`)
  const type = { 'content-type': listType, 'transfer-encoding': 'chunked' }
  const chunked = await ask(Buffer.concat([toBytes(line, undefined, type), framed]))
  assert.equal(chunked.body, body)
  const patient = await ask(
    toBytes(line, undefined, {
      ...{ 'content-type': listType, 'content-length': String(list.length) },
      expect: '100-continue',
    }),
    list,
  )
  assert.equal(patient.body, body)
})

test('pipelined requests get their responses in order, on one connection', async () => {
  using connection = await connectRaw(service.url)
  const requests = [offer(), listing(), listing(), offer(), toBytes('GET /health'), listing()]
  connection.socket.write(Buffer.concat(requests))
  const expected = await Promise.all(requests.map((request) => ask(request)))
  while (answersIn(connection.received()).length < requests.length) {
    await connection.atLeast(connection.received().length + 1)
  }
  const outcomes = (answers: { status: number; body: string }[]) =>
    answers.map(({ status, body }) => ({ status, body }))
  assert.deepEqual(outcomes(answersIn(connection.received())), outcomes(expected))
})

/** The answers that have come whole, none of which is in chunks. */
function answersIn(received: string) {
  const answers: NonNullable<ReturnType<typeof parseAnswer>>[] = []
  for (let rest = received; ; ) {
    const answer = parseAnswer(rest)
    if (!answer) return answers
    answers.push(answer)
    rest = rest.slice(answer.head.length + 2 + answer.body.length)
  }
}

test('a URL may be percent-encoded, and invalid ones have the usual problems', async () => {
  assert.equal((await ask(offer('%73ite%2Egit'))).status, 200)
  const absolute = `GET ${service.url}/repos/site.git/info/refs?service=git-upload-pack`
  assert.equal((await ask(toBytes(absolute))).status, 200)
  const cases: [Buffer, number, RegExp][] = [
    [offer('%zz.git'), 400, /malformed percent-encoding/],
    [offer('site'), 404, /ends in \.git: \/repos\/site\.git/],
    [offer('a%2Fb.git'), 404, /no repository/],
    [toBytes('PUT /repos/site.git/info/refs'), 405, /takes GET, OPTIONS/],
    [toBytes('GET /repos/site.git/git-upload-pack'), 405, /takes OPTIONS, POST/],
    [toBytes('GET /repos/site.git/info/refs/'), 404, /nothing at this address/],
    [toBytes('GET /repos/site.git/info/refs?service=git-upload-archive'), 400, /smart protocol/],
  ]
  for (const [request, status, text] of cases) {
    const answer = await ask(request)
    assert.deepEqual([answer.status, text.test(answer.body)], [status, true], answer.body)
  }
  const options = await ask(toBytes('OPTIONS /repos/site.git/info/refs'))
  assert.deepEqual([options.status, /^allow: GET, OPTIONS\r$/im.test(options.head)], [204, true])
})

test('responses to Git have a request id, and are neither executed nor cached by browsers', async () => {
  const { head } = await ask(listing())
  assert.match(head, /^x-request-id: [0-9a-z]{26}\r$/im)
  assert.match(head, /^x-content-type-options: nosniff\r$/im)
  assert.match(head, /^content-security-policy: default-src 'none'/im)
  assert.match(head, /^cache-control: no-cache, max-age=0, must-revalidate\r$/im)
  const refused = await ask(offer('other.git'))
  assert.match(refused.head, /^cache-control: no-store\r$/im)
  assert.match(refused.head, /^content-type: text\/plain; charset=utf-8\r$/im)
})

test('a Git address without /repos is answered with the right one', async () => {
  const { admin } = service
  const right = admin.remote('site')
  const folders = ['acme/site.git', 'api/repos/site.git', 'repos//site.git', 'repos/site.git/src']
  const appended = ['repos/site.git/src.git', 'site.git.git']
  for (const wrong of ['site.git', 'site', 'never-used.git', ...folders, ...appended]) {
    const others: Record<string, string> = {
      'never-used.git': 'never-used',
      'acme/site.git': 'acme/site',
    }
    const name = others[wrong] ?? 'site'
    for (const command of [
      ['clone', right.replace('repos/site.git', wrong), 'copy'],
      ['push', right.replace('repos/site.git', wrong), 'HEAD:x'],
    ]) {
      await assert.rejects(
        project.git(...command),
        new RegExp(`remote: .* the path of this one is /repos/${name}\\.git\\.`),
        wrong,
      )
    }
  }
  // Other addresses, and other requests, are what they were.
  for (const path of ['/site.git/info/refs', '/a..b.git/info/refs?service=git-upload-pack'])
    assert.equal((await admin.get(path)).body?.code, 'route_not_found', path)
})
