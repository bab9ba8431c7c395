// Tags: each-store

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { gitWithBytes, importOddHistory } from '../support/odd-history.ts'
import { type Service, startService } from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: Service

before(async () => {
  service = await startService({ env: { SVC_ARCHIVES_AT_ONCE: '1', SVC_GIT_WAIT_SECONDS: '1' } })
})

after(() => service[Symbol.asyncDispose]())

const authorization = () => ({ authorization: `Bearer ${service.admin.token}` })

function pathOf(name: string, query: Record<string, string> = {}): string {
  return `/repos/${name}/archive?${new URLSearchParams(query)}`
}

function archive(name: string, query: Record<string, string> = {}, init: RequestInit = {}) {
  const headers = { ...authorization(), ...init.headers }
  return fetch(service.url + pathOf(name, query), { ...init, headers })
}

async function bytesOf(response: Response): Promise<Buffer> {
  assert.equal(response.status, 200)
  return Buffer.from(await response.arrayBuffer())
}

/** Begins to read an archive that is larger than the sockets take; waits for the end of earlier ones. */
function readSlowly(name: string): Promise<IncomingMessage> {
  return until('there is a place for an archive', async () => {
    const response = await open(name)
    if (response.statusCode === 200) return response
    response.resume()
    return undefined
  })
}

async function open(name: string): Promise<IncomingMessage> {
  const sent = httpRequest(service.url + pathOf(name, { format: 'tar' }), {
    headers: authorization(),
    agent: false,
  })
  sent.on('error', () => {})
  sent.end()
  const [response]: IncomingMessage[] = await once(sent, 'response')
  assert.ok(response)
  response.on('error', () => {})
  return response
}

const large = () => randomBytes(12 * 1024 * 1024).toString('base64')

test('an archive has the bytes that git archive makes', async () => {
  await using folder = await temporaryFolder()
  await git(folder.path, ['init', '--quiet', '--bare', '--initial-branch=main'])
  const files = await importOddHistory(folder.path, { seed: 6, commits: 60 })
  await service.admin.post('/repos', { name: 'odd' })
  await git(folder.path, ['push', '--quiet', service.admin.remote('odd'), 'main'])
  const wanted = (format: string, ...paths: string[]) => {
    const options = [`--format=${format}`, '--prefix=odd-main/']
    return gitWithBytes(folder.path, ['--git-dir=.', 'archive', ...options, 'main', '--', ...paths])
  }
  for (const format of ['tar.gz', 'tar', 'zip']) {
    const response = await archive('odd', { format })
    assert.deepEqual(await bytesOf(response), await wanted(format), format)
    const again = await bytesOf(await archive('odd', { format }))
    assert.deepEqual(again, await wanted(format))
  }
  for (const file of [...files, 'folder']) {
    const pathBase64 = Buffer.from(file, 'latin1').toString('base64')
    const one = await bytesOf(await archive('odd', { format: 'tar', pathBase64 }))
    assert.deepEqual(one, await wanted('tar', `:(literal)${file}`), file)
  }
})

test('attributes leave files out, and fill in the commit', async () => {
  const commit = await pushFiles(service.admin, 'attributes', {
    '.gitattributes': 'secret.txt export-ignore\nversion.txt export-subst\n',
    'secret.txt': 'secret',
    'version.txt': '$Format:%H$\n',
  })
  const text = (await bytesOf(await archive('attributes', { format: 'tar' }))).toString()
  assert.ok(text.includes(`${commit}\n`))
  assert.ok(text.includes('attributes-main/version.txt'))
  assert.ok(!text.includes('attributes-main/secret.txt'))
})

test('an archive is named after the repository and the revision', async () => {
  const commit = await pushFiles(service.admin, 'named', { 'a.txt': 'a' })
  await pushFiles(service.admin, 'named', { 'a.txt': 'a' }, { branch: 'grün/"1"' })
  const of = async (query: Record<string, string>) => {
    const response = await archive('named', { ...query, format: 'tar' })
    const text = (await bytesOf(response)).toString()
    const [first] = text.match(/named-[^\0]*\//) ?? []
    return [response.headers.get('content-disposition'), first]
  }
  assert.deepEqual(await of({}), ['attachment; filename="named-main.tar"', 'named-main/'])
  assert.deepEqual(await of({ rev: commit.slice(0, 8) }), [
    `attachment; filename="named-${commit}.tar"`,
    `named-${commit}/`,
  ])
  const [disposition] = await of({ rev: 'grün/"1"' })
  assert.equal(
    disposition,
    `attachment; filename="named-gr_n-1-.tar"; filename*=UTF-8''named-gr%C3%BCn-1-.tar`,
  )
  const types = { 'tar.gz': 'application/gzip', zip: 'application/zip', tar: 'application/x-tar' }
  for (const [format, type] of Object.entries(types)) {
    const response = await archive('named', { format })
    assert.equal(response.headers.get('content-type'), type)
    await bytesOf(response)
  }
})

test('an unchanged archive is not sent again', async () => {
  await pushFiles(service.admin, 'same', { 'a.txt': 'a' })
  const first = await archive('same')
  await bytesOf(first)
  const tag = first.headers.get('etag') ?? ''
  const again = await archive('same', {}, { headers: { 'if-none-match': tag } })
  assert.equal(again.status, 304)
  const other = await archive('same', { format: 'zip' }, { headers: { 'if-none-match': tag } })
  await bytesOf(other)
})

test('one archive waits for another; HEAD does not, and starts no git', exhaustive, async () => {
  await pushFiles(service.admin, 'busy', { large: large() })
  const slow = await readSlowly('busy')
  const busy = await archive('busy')
  assert.equal(busy.status, 503)
  const { code } = Object(await busy.json())
  assert.equal(code, 'git_busy')
  const head = await archive('busy', {}, { method: 'HEAD' })
  assert.equal(head.status, 200)
  assert.equal(head.headers.get('content-type'), 'application/gzip')
  assert.ok(head.headers.get('etag'))
  slow.destroy()
})

test('git ends when the client goes', exhaustive, async () => {
  await pushFiles(service.admin, 'gone', { large: large() })
  for (let round = 0; round < 3; round++) {
    const slow = await readSlowly('gone')
    slow.destroy()
  }
  await pushFiles(service.admin, 'next', { 'a.txt': 'a' })
  await until('git has ended', async () => (await archive('next')).ok)
})

test('what cannot be archived is refused', async () => {
  await pushFiles(service.admin, 'refused', { 'a.txt': 'a' })
  const refusal = async (query: Record<string, string>) => {
    const response = await archive('refused', query)
    return [response.status, Object(await response.json()).code]
  }
  assert.deepEqual(await refusal({ path: 'none' }), [404, 'path_not_found'])
  assert.deepEqual(await refusal({ rev: 'none' }), [404, 'revision_not_found'])
  assert.deepEqual(await refusal({ format: 'rar' }), [400, 'invalid_request'])
})
