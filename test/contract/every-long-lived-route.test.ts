// Tags: exhaustive
import assert from 'node:assert/strict'
import { hash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { deflateSync } from 'node:zlib'
import { newId } from '#base/ids.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { until } from '../support/condition.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { untilTidy } from '../support/leftovers.ts'
import { cloneBody, gitHeaders, toPushBody } from '../support/raw-git.ts'
import { connectRaw, parseAnswer } from '../support/raw-http.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { put } from '../support/run-files.ts'
import type { Client } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

// Each long-lived response is opened by a collaborator, or the runner of a run, who then loses access. Nothing else
// would end it before the test has long failed.
const env = {
  SVC_GIT_STALL_SECONDS: '3600',
  SVC_IMPORT_STALL_SECONDS: '3600',
  SVC_IMPORT_SECONDS: '3600',
}
const mib = 1024 * 1024
// More than the sockets on both sides take of a response that is not read.
const largeBytes = 24 * mib

let service: InProcess
let admin: Client
let silent: Server
/** A repository whose content is large. Tests share it: to make one takes seconds. */
let large: Repository

before(async () => {
  service = await startInProcess(env)
  admin = service.admin
  silent = createServer(() => {})
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const owner = await createOwner('large')
  // Base64 of random bytes does not compress below these.
  const noise = randomBytes(largeBytes).toString('base64')
  const commit = await pushFiles(owner, 'large', { ...oneStep('true'), noise })
  large = { name: 'large', owner, commit }
})

after(async () => {
  await service[Symbol.asyncDispose]()
  silent.close()
})

type Repository = { name: string; owner: Client; commit: string }

/** A repository with a commit and a collaborator of its own. */
type Scene = Repository & {
  member: Client
  run: Awaited<ReturnType<typeof mustClaim>> | undefined
}

const losses = {
  'the token is deleted': async ({ member }: Scene) => {
    assert.equal((await admin.delete(`/tokens/${member.id}`)).status, 204)
  },
  'the token expires': async ({ member }: Scene) => {
    const expired = { expiresAt: Date.now() }
    await service.db.updateTable('tokens').set(expired).where('id', '=', member.id).execute()
  },
  'the collaborator is removed': async ({ owner, name, member }: Scene) => {
    const path = `/repos/${name}/collaborators/${member.username}`
    assert.equal((await owner.delete(path)).status, 204)
  },
  'the repository is deleted': async ({ owner, name }: Scene) => {
    assert.equal((await owner.delete(`/repos/${name}`)).status, 204)
  },
  'the run is handed back': async ({ run }: Scene) => {
    const body = { isLoss: false, reason: 'Handed back.' }
    const answer = await run?.own.post(`${run.path}/release`, body)
    assert.equal(answer?.status, 204)
  },
}

type Loss = keyof typeof losses

const ofToken: Loss[] = ['the token is deleted', 'the token expires']
const ofRepository: Loss[] = [
  ...ofToken,
  'the collaborator is removed',
  'the repository is deleted',
]
const ofRun: Loss[] = ['the run is handed back']

/** Opens a response that lasts, and returns what waits for its end and asserts that it was for want of access. */
type Open = (scene: Scene) => Promise<(loss: Loss) => Promise<void>>

type Case = { title?: string; losses: Loss[]; open: Open; isLarge?: boolean; hasRun?: boolean }

const cases: Record<string, Case[]> = {
  // Its wait, for the reaction to a push, cannot be held up from outside.
  'GET /repos/:name/workflows': [],
  'GET /repos/:name/workflows/:id': [
    {
      losses: ofRepository,
      open: async (scene) => poll(scene, 'GET', `${await startRun(scene)}?wait=300`),
    },
  ],
  'GET /repos/:name/workflows/:id/logs': [
    {
      losses: ofRepository,
      open: async (scene) => follow(scene, `${await startRun(scene)}/logs?follow=true`),
    },
  ],
  'GET /repos/:name/archive': [
    {
      losses: ofRepository,
      isLarge: true,
      open: ({ name, member }) =>
        readSlowly(`/repos/${name}/archive?format=tar`, { token: member.token }),
    },
  ],
  'GET /repos/:name/file': [
    {
      losses: ofRepository,
      isLarge: true,
      open: ({ name, member }) =>
        readSlowly(`/repos/${name}/file?path=noise`, { token: member.token }),
    },
  ],
  'GET /events': [
    { title: 'followed', losses: ofToken, open: (scene) => follow(scene, '/events?follow=true') },
    {
      title: 'of a repository, followed',
      losses: ofRepository,
      open: (scene) => follow(scene, `/events?follow=true&repository=${scene.name}`),
    },
    {
      title: 'waited for',
      losses: ofToken,
      // What happens to the token is no event of this kind.
      open: (scene) => poll(scene, 'GET', '/events?after=latest&wait=60&kind=secret.saved'),
    },
  ],
  'POST /mcp': [
    {
      losses: ofToken,
      open: async (scene) =>
        poll(scene, 'POST', '/mcp', await callOfGetRun(scene), assertToolRefused),
    },
  ],
  'POST /repos/import': [
    {
      losses: ofToken,
      open(scene) {
        // A TCP server's address is neither null nor a path once it listens.
        const { port } = silent.address() as AddressInfo
        const body = { source: `http://127.0.0.1:${port}/x.git`, name: `${scene.name}-import` }
        return poll(scene, 'POST', '/repos/import', body)
      },
    },
  ],
  'POST /runner/claim': [
    {
      losses: ofToken,
      open: (scene) =>
        poll(scene, 'POST', '/runner/claim', {
          name: 'x',
          version: '1',
          // No run asks for it.
          labels: [],
          isolation: 'none',
          waitSeconds: 30,
        }),
    },
  ],
  'GET /repos/:name/workflows/:id/shells/:shell/output': [
    {
      losses: ofRepository,
      open: async (scene) => {
        const path = `${await openShell(scene, scene.member)}/output?wait=10`
        return poll(scene, 'GET', path, undefined, assertShellEnded)
      },
    },
  ],
  'POST /repos/:name/workflows/:id/shells/:shell/input': [
    {
      losses: ofRepository,
      async open(scene) {
        const path = `${await openShell(scene, scene.member)}/input`
        return poll(scene, 'POST', path, await fillWindow(scene.member, path))
      },
    },
  ],
  'POST /runner/shells/claim': [
    {
      losses: ofToken,
      open: (scene) =>
        poll(scene, 'POST', '/runner/shells/claim', {
          holder: 'the-secret-of-another-runner',
          workspaces: [],
          removed: [],
          waitSeconds: 30,
        }),
    },
  ],
  'POST /runner/shells/:id/input': [
    {
      losses: ofToken,
      async open(scene) {
        const path = `/runner/shells/${await idOfShell(scene)}/input`
        return poll(scene, 'POST', path, { holder, after: 0, wantsInput: true, waitSeconds: 30 })
      },
    },
  ],
  'POST /runner/shells/:id/output': [
    {
      losses: ofToken,
      async open(scene) {
        const path = `/runner/shells/${await idOfShell(scene)}/output`
        return poll(scene, 'POST', path, await fillWindow(scene.member, path, { holder }))
      },
    },
  ],
  'GET /runner/runs/:id/orders': [
    {
      losses: ofRun,
      hasRun: true,
      async open({ run }) {
        assert.ok(run)
        const answered = run.own.get(`${run.path}/orders?wait=30`)
        return async () => assertRefused(await answered)
      },
    },
  ],
  'GET /runner/runs/:id/source': [
    {
      losses: ofRun,
      hasRun: true,
      isLarge: true,
      open: ({ run }) => readSlowly(`${run?.path}/source`, { token: run?.own.token ?? '' }),
    },
  ],
  'PUT /runner/runs/:id/artifacts': [
    {
      losses: ofRun,
      hasRun: true,
      open: ({ run }) => sendSlowly(run, 'artifacts?name=a'),
    },
  ],
  'GET /runner/runs/:id/artifacts/content': [
    {
      losses: ofRun,
      hasRun: true,
      async open({ run }) {
        await storeNoise(run, 'artifacts?name=a')
        const token = run?.own.token ?? ''
        return readSlowly(`${run?.path}/artifacts/content?name=a`, { token })
      },
    },
  ],
  'PUT /runner/runs/:id/caches': [
    {
      losses: ofRun,
      hasRun: true,
      open: ({ run }) => sendSlowly(run, 'caches?key=k&version=v'),
    },
  ],
  'GET /runner/runs/:id/caches': [
    {
      losses: ofRun,
      hasRun: true,
      async open({ run }) {
        await storeNoise(run, 'caches?key=k&version=v')
        const token = run?.own.token ?? ''
        return readSlowly(`${run?.path}/caches?keys=k&version=v`, { token })
      },
    },
  ],
  'GET /repos/:name/workflows/:id/artifacts/:artifact': [
    {
      losses: ofRepository,
      hasRun: true,
      async open({ run, name, member }) {
        await storeNoise(run, 'artifacts?name=a')
        const path = `/repos/${name}/workflows/${run?.plan.runId}/artifacts/a?format=tar.zst`
        return readSlowly(path, { token: member.token })
      },
    },
  ],
  'GET /repos/:repository/info/refs': [
    {
      losses: ofRepository,
      async open(scene) {
        await addManyRefs(scene)
        const path = `/repos/${scene.name}.git/info/refs?service=git-upload-pack`
        return readSlowly(path, { token: scene.member.token })
      },
    },
  ],
  'GET /repos/:repository/info/lfs/objects/:oid': [
    {
      losses: ofRepository,
      async open({ name, owner, member }) {
        const noise = randomBytes(largeBytes)
        const path = pathOfLfsObject(name, noise)
        const headers = { authorization: `Bearer ${owner.token}` }
        const stored = await fetch(service.url + path, { method: 'PUT', headers, body: noise })
        assert.equal(stored.status, 200)
        return readSlowly(path, { token: member.token })
      },
    },
  ],
  'PUT /repos/:repository/info/lfs/objects/:oid': [
    {
      losses: ofRepository,
      async open({ name, member }) {
        const content = randomBytes(1000)
        const connection = await connectRaw(service.url)
        connection.request(`PUT ${pathOfLfsObject(name, content)}`, {
          authorization: `Bearer ${member.token}`,
          'content-length': content.length,
          connection: 'close',
        })
        connection.socket.write(content.subarray(1))
        const isReceived = async () => {
          const names = await readdir(join(service.dataDir, 'staging'))
          return names.some((file) => /\.lfs-[0-9a-f]{64}$/.test(file))
        }
        await until('it is being received', isReceived)
        return async () => {
          const answer = parseAnswer(await connection.end())
          assert.ok([401, 403, 404].includes(answer?.status ?? 0), String(answer?.status))
          await until('nothing of it stays', async () => !(await isReceived()))
        }
      },
    },
  ],
  'POST /repos/:repository/git-receive-pack': [
    {
      losses: ofRepository,
      async open({ name, member, commit }) {
        // Of its two objects, the first one: a blob of 2 MiB, whose size is in the last bits.
        const start = Buffer.from('PACK\0\0\0\x02\0\0\0\x02\xb0\x80\x80\x08', 'latin1')
        const pack = Buffer.concat([start, deflateSync(randomBytes(2 * mib), { level: 0 })])
        const body = toPushBody({ id: commit.replace(/^./, '0'), pack }, { branches: ['x'] })
        const headers = gitHeaders('git-receive-pack', member.token, body.length + 1)
        const connection = await connectRaw(service.url)
        connection.request(`POST /repos/${name}.git/git-receive-pack`, {
          ...headers,
          connection: 'close',
        })
        connection.socket.write(body)
        await untilUsed(member)
        return async (loss) => {
          const answer = parseAnswer(await connection.end())
          // Git fails in a repository that is deleted, and its response has begun.
          if (loss === 'the repository is deleted') return
          assert.ok([401, 403, 404].includes(answer?.status ?? 0), String(answer?.status))
          await untilTidy(service.dataDir)
        }
      },
    },
  ],
  'POST /repos/:repository/git-upload-pack': [
    {
      losses: ofRepository,
      isLarge: true,
      open({ name, member, commit }) {
        const body = cloneBody(commit)
        const headers = gitHeaders('git-upload-pack', member.token, body.length)
        return readSlowly(`/repos/${name}.git/git-upload-pack`, { headers, body })
      },
    },
  ],
  'POST /repos/:repository/git-upload-archive': [
    {
      losses: ofRepository,
      isLarge: true,
      open({ name, member }) {
        const body = Buffer.concat([packet('argument HEAD\n'), flushPacket])
        const headers = {
          ...gitHeaders('git-upload-pack', member.token, body.length),
          'content-type': 'application/x-git-upload-archive-request',
        }
        return readSlowly(`/repos/${name}.git/git-upload-archive`, { headers, body })
      },
    },
  ],
}

describe('every long-lived response ends when its caller loses access', () => {
  test('every long-lived route is tested here', () => {
    const declared = service.routes.filter((route) => route.kind !== 'public' && route.isLongLived)
    const names = declared.map(({ method, path }) => `${method} ${path}`)
    assert.deepEqual(names.sort(), Object.keys(cases).sort())
  })

  for (const [route, ways] of Object.entries(cases)) {
    for (const { title, open, losses: possible, ...needed } of ways) {
      for (const loss of possible) {
        test(`${[route, title].filter(Boolean).join(', ')}: ${loss}`, async () => {
          const scene = await createScene(needed)
          try {
            const untilEnd = await open(scene)
            await losses[loss](scene)
            await untilEnd(loss)
          } finally {
            // Its run waits for any runner, also one of another test.
            await admin.delete(`/repos/${scene.name}`)
            if (scene.name === large.name) await restoreLarge()
          }
        })
      }
    }
  }
})

let scenes = 0
const toRun = ['workflow:trigger', 'secrets:write']
const holder = 'the-secret-of-a-runner'

async function createScene(needed: Pick<Case, 'isLarge' | 'hasRun'>): Promise<Scene> {
  scenes += 1
  const username = `member-${scenes}`
  const [repository, member] = await Promise.all([
    needed.isLarge ? large : createRepository(`site-${scenes}`),
    service.client({
      username,
      permissions: [...toRun, 'repo:read', 'repo:write', 'workflow:read', 'runner'],
    }),
  ])
  const { name, owner } = repository
  assert.equal((await owner.post(`/repos/${name}/collaborators`, { username })).status, 201)
  const scene = { ...repository, member, run: undefined }
  if (!needed.hasRun) return scene
  await startRun(scene)
  return { ...scene, run: await mustClaim(member) }
}

async function createRepository(name: string): Promise<Repository> {
  const owner = await createOwner(name)
  return { name, owner, commit: await pushFiles(owner, name, oneStep('true')) }
}

function createOwner(name: string): Promise<Client> {
  const permissions = ['repo:read', 'repo:write', 'repo:delete', 'collaborator:write']
  return service.client({
    username: `owner-of-${name}`,
    permissions: [...permissions, ...toRun],
  })
}

async function restoreLarge(): Promise<void> {
  const { body } = await admin.get('/deleted-repos')
  const deleted = body.find(({ name }: Repository) => name === large.name)
  assert.equal((await admin.post(`/deleted-repos/${deleted.id}/restore`)).status, 200)
}

/** Starts a run that stays queued until it is claimed; returns its path. */
async function startRun({ owner, name }: Repository): Promise<string> {
  const { status, body, text } = await owner.post(`/repos/${name}/workflows`, {})
  assert.equal(status, 202, text)
  return `/repos/${name}/workflows/${body.id}`
}

/** Opens a shell in the workspace of a run that has failed, as a user with the role `admin`; returns its path. */
async function openShell(scene: Repository & { member: Client }, user: Client): Promise<string> {
  const { owner, name, member } = scene
  const { username } = member
  await owner.post(`/repos/${name}/collaborators`, { username, role: 'admin' })
  const path = await startRun(scene)
  const run = await mustClaim(member)
  const workspace = { id: newId(), job: 'steps', keptSeconds: 60, holder }
  assert.equal((await run.own.post(`${run.path}/workspaces`, workspace)).status, 204)
  await run.report(...wholeRun('failure'))
  const { status, body, text } = await user.post(`${path}/shells`, {})
  assert.equal(status, 201, text)
  return `${path}/shells/${body.id}`
}

async function idOfShell(scene: Scene): Promise<string> {
  const path = await openShell(scene, scene.owner)
  return path.split('/').at(-1) ?? ''
}

/** Appends as much to the input or output of a shell as fits; returns a body that does not. */
async function fillWindow(client: Client, path: string, more: object = {}): Promise<object> {
  const bytes = 64 * 1024
  const data = Buffer.alloc(bytes).toString('base64')
  for (let start = 0; start < 4 * bytes; start += bytes)
    assert.equal((await client.post(path, { ...more, start, data })).status, 200)
  return { ...more, start: 4 * bytes, data }
}

/** A call of the MCP server that waits for a run. */
async function callOfGetRun(scene: Scene): Promise<object> {
  const run = (await startRun(scene)).split('/').at(-1)
  const given = { repository: scene.name, run, wait: 300 }
  return {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'get_run', arguments: given },
  }
}

/** Asks for what is answered when something happens that does not. */
async function poll(
  { member }: Scene,
  method: string,
  path: string,
  body?: object,
  assertEnd = assertRefused,
) {
  const answered = member.call(method, path, body)
  await untilUsed(member)
  return async (loss: Loss) => {
    const answer = await answered
    // A run of a repository that is deleted comes to its end first.
    if (loss !== 'the repository is deleted') assertEnd(answer)
  }
}

/** Follows server-sent events. */
async function follow({ member }: Scene, path: string) {
  const headers = { authorization: `Bearer ${member.token}` }
  const response = await fetch(service.url + path, { headers })
  assert.equal(response.status, 200)
  return async (loss: Loss) => {
    const text = await response.text()
    // A run of a repository that is deleted comes to its end, too.
    if (loss === 'the repository is deleted') return
    assert.match(text, /\n: .*(deleted or has expired|not yours to see|no longer have access)/)
    assert.doesNotMatch(text, /^event: end$/m)
  }
}

type Sent = { token?: string; headers?: Record<string, string | number>; body?: Buffer }

/** Asks for what is larger than the sockets, and does not read it until the server has given it up. */
async function readSlowly(path: string, { token, headers, body }: Sent) {
  const request = httpRequest(service.url + path, {
    method: body ? 'POST' : 'GET',
    headers: headers ?? { authorization: `Bearer ${token}` },
    agent: false,
  })
  request.on('error', () => {})
  request.end(body)
  const [response]: IncomingMessage[] = await once(request, 'response')
  assert.equal(response?.statusCode, 200)
  const port = response.socket.localPort ?? 0
  assert.ok(isServed(port))
  return async () => {
    await until('the server closes the connection', () => !isServed(port))
    let isComplete = false
    response
      .on('error', () => {})
      .on('end', () => {
        isComplete = response.complete
      })
    response.resume()
    await new Promise<void>((resolve) => {
      if (response.closed) resolve()
      else response.once('close', () => resolve())
    })
    assert.equal(isComplete, false)
  }
}

async function storeNoise(run: Scene['run'], path: string): Promise<void> {
  assert.ok(run)
  assert.equal((await put(run, path, randomBytes(largeBytes))).status, 201)
}

/** Sends the beginning of a content, and waits for the answer. */
async function sendSlowly(run: Scene['run'], path: string) {
  assert.ok(run)
  const connection = await connectRaw(service.url)
  connection.request(`PUT ${run.path}/${path}`, {
    authorization: `Bearer ${run.own.token}`,
    'content-type': 'application/zstd',
    'content-length': 1000,
    connection: 'close',
  })
  connection.socket.write(randomBytes(999))
  const isOpen = async () =>
    (await service.db.selectFrom('runFiles').select('id').where('state', '=', 'open').execute())
      .length > 0
  await until('it is being received', isOpen)
  return async () => {
    const answer = parseAnswer(await connection.end())
    assert.equal(answer?.status, 401)
    await until('nothing of it stays', async () => !(await isOpen()))
  }
}

function pathOfLfsObject(name: string, content: Buffer): string {
  return `/repos/${name}.git/info/lfs/objects/${hash('sha256', content)}`
}

/** Whether the server's end of a connection is open: proc(5), /proc/net/tcp. */
function isServed(clientPort: number): boolean {
  const hex = (port: number) => port.toString(16).toUpperCase().padStart(4, '0')
  const [from, to] = [hex(Number(new URL(service.url).port)), hex(clientPort)]
  const established = new RegExp(`^ *\\d+: \\w+:${from} \\w+:${to} 01 `, 'm')
  return established.test(readFileSync('/proc/net/tcp', 'utf8'))
}

async function addManyRefs({ name, commit }: Scene): Promise<void> {
  const { body } = await admin.get(`/repos/${name}`)
  const folder = 'x'.repeat(200)
  const lines = Array.from({ length: largeBytes / 256 }, (_, index) => {
    const number = String(index).padStart(10, '0')
    return `${commit} refs/heads/${folder}/${number}\n`
  })
  const header = '# pack-refs with: peeled fully-peeled sorted \n'
  await writeFile(join(body.path, 'packed-refs'), header + lines.join(''))
}

// A request that is authenticated waits a moment later, or finds out at once.
async function untilUsed({ id }: Client): Promise<void> {
  await until('the token is used', async () => {
    const { body } = await admin.get('/tokens')
    return body.find((token: Client & { lastUsedAt: number | null }) => token.id === id)?.lastUsedAt
  })
}

// A token that ends between the authentication of the message and that of the tool's operation fails only the tool.
function assertToolRefused(answer: Awaited<ReturnType<Client['get']>>): void {
  if (answer.status !== 200) {
    assertRefused(answer)
    return
  }
  const { isError, content } = answer.body.result
  assert.equal(isError, true, answer.text)
  assert.equal(JSON.parse(content[0].text).code, 'token_invalid')
}

// A shell whose user loses access ends, which its output says with the reason, or its user is refused before.
function assertShellEnded(answer: Awaited<ReturnType<Client['get']>>): void {
  if (answer.status === 200)
    assert.match(answer.body.end.reason, /not yours to see|was deleted or has expired/)
  else assertRefused(answer)
}

function assertRefused({ status, body, text }: Awaited<ReturnType<Client['get']>>): void {
  assert.ok([401, 403, 404].includes(status), text)
  assert.match(body.code, /^(token_invalid|permission_missing|\w+_not_found)$/)
}
