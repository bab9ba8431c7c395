// Tags: each-store

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { cp, mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { pathOfLfsObject } from '#repositories/store/lfs-files.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { importAsync } from '../support/imports.ts'
import { untilTidy } from '../support/leftovers.ts'
import { without } from '../support/programs.ts'
import { type RemoteHost, serving, startHttpHost } from '../support/remote-hosts.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service

before(async () => {
  service = await startService({
    env: { SVC_LFS_OBJECT_MAX: '4MiB', SVC_IMPORT_STALL_SECONDS: '10' },
  })
})

after(async () => {
  await service[Symbol.asyncDispose]()
})

const idOf = (content: string) => createHash('sha256').update(content).digest('hex')
const pointerTo = (content: string, size = content.length) =>
  `version https://git-lfs.github.com/spec/v1\noid sha256:${idOf(content)}\nsize ${size}\n`

async function batch(name: string, contents: readonly string[]) {
  const objects = contents.map((content) => ({ oid: idOf(content), size: content.length }))
  const path = `/repos/${name}.git/info/lfs/objects/batch`
  const { body } = await service.admin.post(path, { operation: 'download', objects })
  return body.objects
}

/** Which of some contents a repository has as LFS objects, as they can be downloaded. */
async function objectsOf(name: string, contents: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const { actions } of await batch(name, contents)) {
    if (!actions) continue
    const { href, header } = actions.download
    found.push(await (await fetch(href, { headers: header })).text())
  }
  return found
}

async function assertImported(
  source: string,
  name: string,
  expected: { present: string[]; missing: string[] },
): Promise<void> {
  const { status, body, text } = await service.admin.post('/repos/import', { source, name })
  assert.equal(status, 201, text)
  const { present, missing } = expected
  const log = service.log().slice(-2000)
  assert.equal(body.missingLfsObjects, missing.length, log)
  assert.deepEqual(await objectsOf(name, [...present, ...missing]), present, log)
}

async function commitPointers(project: Project, pointers: string[]): Promise<void> {
  for (const [index, text] of pointers.entries())
    await writeFile(join(project.path, `file-${index}`), text)
  await project.git('add', '.')
  await project.git('commit', '--quiet', '--message', 'Pointers')
}

test('an import from another svc has its objects', { skip: without('git-lfs') }, async () => {
  await using project = await createProject()
  const origin = service.admin.remote('origin')
  await service.admin.post('/repos', { name: 'origin' })
  await project.git('lfs', 'install', '--local')
  await project.git('lfs', 'track', '*.bin')
  const contents = ['one', 'two', 'in the history']
  for (const content of contents) await project.commit(`${content}.bin`, content)
  await project.git('rm', '--quiet', 'in the history.bin')
  await project.git('commit', '--quiet', '--message', 'Remove it')
  await project.git('push', '--quiet', origin, 'HEAD:main')
  // No pointer names it.
  const url = `${service.url}/repos/origin.git/info/lfs/objects/${idOf('other')}`
  const headers = { authorization: `Bearer ${service.adminToken}` }
  assert.equal((await fetch(url, { method: 'PUT', headers, body: 'other' })).status, 200)

  await assertImported(origin, 'copy', { present: contents, missing: [] })
  assert.deepEqual(await objectsOf('copy', ['other']), [])
})

test('an import from a folder has the objects that are in it, and follows no links', async () => {
  await using folder = await temporaryFolder()
  await using project = await createProject()
  const contents = ['one', 'two', 'changed', 'linked', 'in a linked folder', 'longer', 'absent']
  await commitPointers(
    project,
    contents.map((content) => pointerTo(content)),
  )
  const directory = join(project.path, '.git')
  const pathOf = (content: string) => pathOfLfsObject(directory, idOf(content))
  for (const content of contents.slice(0, -1)) {
    await mkdir(dirname(pathOf(content)), { recursive: true })
    await writeFile(pathOf(content), content)
  }
  const outside = async (content: string, path: string) => {
    await cp(path, join(folder.path, content), { recursive: true })
    await rm(path, { recursive: true })
    await symlink(join(folder.path, content), path)
  }
  await outside('linked', pathOf('linked'))
  await outside('in a linked folder', dirname(pathOf('in a linked folder')))
  await writeFile(pathOf('changed'), 'Changed')
  await writeFile(pathOf('longer'), 'longer than the pointer')
  const expected = { present: contents.slice(0, 2), missing: contents.slice(2) }
  await assertImported(project.path, 'of-project', expected)
  const bare = join(folder.path, 'bare')
  await git('/', ['clone', '--quiet', '--bare', project.path, bare])
  await assertImported(bare, 'without-objects', { present: [], missing: contents })
  await cp(join(directory, 'lfs'), join(bare, 'lfs'), { recursive: true })
  await assertImported(bare, 'of-bare', expected)
})

type Answer = (request: IncomingMessage, response: ServerResponse) => void

/** An object of a source, and how its LFS server treats it. */
type Case = {
  isImported: boolean
  /** The size in its pointer; by default that of its bytes. */
  size?: number
  /** What the batch says of it; by default where it is. */
  says?: (here: string, elsewhere: string) => object
  answer?: Answer
}

const link = (href: string, header = {}) => ({ actions: { download: { href, header } } })
const given =
  (content: string): Answer =>
  (_request, response) =>
    response.end(content)
const status =
  (code: number, headers = {}): Answer =>
  (_request, response) =>
    response.writeHead(code, headers).end()

/** By their contents, of which each is the end of its address, too. */
const cases: Record<string, Case> = {
  plain: { isImported: true },
  chunked: { isImported: true, answer: (_request, response) => writeEach('chunked', response) },
  elsewhere: {
    isImported: true,
    says: (_here, there) => link(`${there}/elsewhere`, { Authorization: 'Of it', Host: 'evil' }),
  },
  redirected: {
    isImported: true,
    says: (here) => link(`${here}/redirected`, { Authorization: 'Of it' }),
  },
  'wrong-bytes': { isImported: false, answer: given('wrong-Bytes') },
  unknown: { isImported: false, says: () => ({ error: { code: 404, message: 'unknown' } }) },
  unmentioned: { isImported: false, says: () => ({ oid: 'another' }) },
  'not-found': { isImported: false, answer: status(404) },
  'server-error': { isImported: false, answer: status(500) },
  endless: { isImported: false, answer: (_request, response) => writeForever(response) },
  short: { isImported: false, answer: (_request, response) => writeEach('sho', response) },
  cut: {
    isImported: false,
    answer(_request, response) {
      response.writeHead(200, { 'content-length': 3 }).write('cu', () => response.destroy())
    },
  },
  'other-length': { isImported: false, answer: given('other-lengths') },
  huge: { isImported: false, size: 1024 ** 4 },
  'private-address': { isImported: false, says: () => link('http://10.0.0.1/private-address') },
  'private-redirect': { isImported: false, answer: status(302, { location: 'http://10.0.0.1/' }) },
  file: { isImported: false, says: () => link('file:///etc/passwd') },
  circle: { isImported: false, answer: status(302, { location: '/circle' }) },
  'odd-header': {
    isImported: false,
    says: (here) => link(`${here}/odd-header`, { 'a b': 'c', 'x-lines': 'a\r\nb' }),
  },
}

function writeEach(content: string, response: ServerResponse): void {
  for (const character of content) response.write(character)
  response.end()
}

function writeForever(response: ServerResponse): void {
  const more = () => {
    while (!response.destroyed && response.write('x'.repeat(65_536)));
  }
  response.on('drain', more).on('error', () => {})
  more()
}

/** Serves a project over HTTP, with an LFS server whose requests are recorded. */
async function startLfsHost(
  project: Project,
  respond: (objects: { oid: string }[], here: string) => unknown,
  answer: Answer,
): Promise<RemoteHost & { url: string; requests: IncomingMessage[] }> {
  const requests: IncomingMessage[] = []
  const answerGit = serving(join(project.path, '.git'))
  const host = await startHttpHost((request, response) => {
    if (/git-upload-pack/.test(request.url ?? '')) return answerGit(request, response)
    requests.push(request)
    // An import ends some of the connections early.
    response.on('error', () => {})
    if (!/\/objects\/batch$/.test(request.url ?? '')) return answer(request, response)
    request.setEncoding('utf8')
    let text = ''
    request.on('data', (chunk) => {
      text += chunk
    })
    request.on('end', () => {
      const { objects } = JSON.parse(text)
      response.end(JSON.stringify(respond(objects, `http://127.0.0.1:${host.port}`)))
    })
  })
  return { ...host, requests, url: `http://ada:pa55@127.0.0.1:${host.port}/x` }
}

test('an import has the objects that an LFS server sends as it should, and counts the others', async () => {
  await using project = await createProject()
  const contents = Object.keys(cases)
  await commitPointers(
    project,
    contents.map((content) => pointerTo(content, cases[content]?.size)),
  )
  const asked: IncomingMessage[] = []
  using other = await startHttpHost((request, response) => {
    asked.push(request)
    response.end(request.url?.slice(1))
  })
  const elsewhere = `http://localhost:${other.port}`
  using host = await startLfsHost(
    project,
    (objects, here) => {
      const unwanted = { oid: idOf('extra'), size: 5, ...link(`${here}/extra`) }
      const replies = objects.map((object) => {
        const content = contents.find((one) => idOf(one) === object.oid) ?? ''
        return {
          ...object,
          ...(cases[content]?.says ?? (() => link(`${here}/${content}`)))(here, elsewhere),
        }
      })
      return { transfer: 'basic', objects: [unwanted, ...replies] }
    },
    (request, response) => {
      const content = request.url?.slice(1) ?? ''
      if (content === 'redirected')
        return void response.writeHead(307, { location: `${elsewhere}/redirected` }).end()
      return (cases[content]?.answer ?? given(content))(request, response)
    },
  )
  const present = contents.filter((content) => cases[content]?.isImported)
  const missing = contents.filter((content) => !cases[content]?.isImported)
  await assertImported(host.url, 'of-host', { present, missing })

  const basic = `Basic ${Buffer.from('ada:pa55').toString('base64')}`
  for (const { url = '', headers } of host.requests) {
    assert.ok(!/extra|huge/.test(url), url)
    assert.equal(headers.authorization, url === '/redirected' ? 'Of it' : basic, url)
  }
  const seen = asked.map(({ url, headers }) => [url, headers.authorization, headers.host])
  assert.deepEqual(seen.sort(), [
    ['/elsewhere', 'Of it', `localhost:${other.port}`],
    ['/redirected', undefined, `localhost:${other.port}`],
  ])
})

test('a repository may name an LFS server at its own host, and no other', async () => {
  let count = 0
  using other = await startHttpHost(() => assert.fail('another host was asked'))
  const servers = [
    { lfsUrl: (port: number) => `http://127.0.0.1:${port}/lfs/`, path: '/lfs/objects/batch' },
    { lfsUrl: () => `http://127.0.0.1:${other.port}/lfs`, path: undefined },
    { lfsUrl: () => 'ssh://git@127.0.0.1/lfs', path: undefined },
  ]
  for (const { lfsUrl, path } of servers) {
    await using project = await createProject()
    using host = await startLfsHost(
      project,
      (objects, here) => ({ objects: objects.map((one) => ({ ...one, ...link(`${here}/one`) })) }),
      given('one'),
    )
    await project.git('config', '--file', '.lfsconfig', 'lfs.url', lfsUrl(host.port))
    await commitPointers(project, [pointerTo('one')])
    const expected = { present: ['one'], missing: [] }
    const nothing = { present: [], missing: ['one'] }
    await assertImported(host.url, `configured-${count++}`, path === undefined ? nothing : expected)
    assert.equal(host.requests[0]?.url, path)
  }
})

/** Sends a byte of an object now and then, until its client goes. */
function drip(response: ServerResponse): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers()
  const timer = setInterval(() => response.write('x'), 100)
  response.on('close', () => {
    clearInterval(timer)
    resolve(undefined)
  })
  return promise
}

const drippingReply = (objects: { oid: string }[], here: string) => ({
  objects: objects.map((object) => ({ ...object, ...link(`${here}/slow`) })),
})

test('a cancelled import ends its transfers, and leaves nothing', async () => {
  await using project = await createProject()
  await commitPointers(project, [pointerTo('slow', 1_000_000)])
  const closed = Promise.withResolvers<unknown>()
  using host = await startLfsHost(project, drippingReply, (_request, response) =>
    closed.resolve(drip(response)),
  )
  const { admin } = service
  await importAsync(admin, { source: host.url, name: 'cancelled' })
  await until('objects are transferred', async () => {
    const { body } = await admin.get('/repos/cancelled')
    return body.import?.phase === 'lfs' && host.requests.length > 1
  })
  assert.equal((await admin.delete('/repos/cancelled')).status, 204)
  await closed.promise
  await untilTidy(service.dataDir)
  assert.equal((await admin.post('/repos', { name: 'cancelled' })).status, 201)
})

test(
  'an LFS server that stalls or takes too long does not fail the import',
  exhaustive,
  async () => {
    await using project = await createProject()
    await commitPointers(project, [pointerTo('slow', 1_000_000)])
    await Promise.all([assertStalled(project), assertLate(project)])
  },
)

async function assertStalled(project: Project): Promise<void> {
  using silent = await startLfsHost(project, drippingReply, () => {})
  await assertImported(silent.url, 'silent', { present: [], missing: ['slow'] })
}

async function assertLate(project: Project): Promise<void> {
  using dripping = await startLfsHost(project, drippingReply, (_request, response) => {
    void drip(response)
  })
  await using hurried = await startService({ env: { SVC_IMPORT_SECONDS: '10' } })
  const imported = await hurried.admin.post('/repos/import', { source: dripping.url, name: 'late' })
  assert.deepEqual([imported.status, imported.body.missingLfsObjects], [201, 1])
}
