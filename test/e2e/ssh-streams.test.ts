// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { lingerMaxBytes } from '#base/linger.ts'
import { packet } from '#git/protocol/pkt-line.ts'
import { firstWindowBytes } from '#ssh/channel.ts'
import { probesPerStall } from '#ssh/connection.ts'
import { messages } from '#ssh/messages.ts'
import { message } from '#ssh/wire.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { leftoversIn } from '../support/leftovers.ts'
import { without } from '../support/programs.ts'
import { cloneBody, packOf, pushBody, toPushBody } from '../support/raw-git.ts'
import type { RawSsh } from '../support/raw-ssh.ts'
import { createLargeProject, execRequest, type SshSite, startSshSite } from '../support/ssh-site.ts'

const mib = 1024 * 1024
const skip = without('openssh')
const options = { skip }

/** The servers that tests share: each of them tests what its settings limit. */
const servers = {
  usual: {},
  impatient: { SVC_GIT_STALL_SECONDS: '5' },
  small: { SVC_PUSH_MAX: '1MiB', SVC_FETCH_REQUEST_MAX: '1MiB' },
  narrow: { SVC_FETCHES_AT_ONCE: '1', SVC_GIT_WAITING: '0' },
}
const running = new Map<string, SshSite>()
const stack = new AsyncDisposableStack()

before(async () => {
  if (skip) return
  for (const [name, env] of Object.entries(servers))
    running.set(name, stack.use(await startSshSite({ env })))
})

after(() => stack.disposeAsync())

/** A server with an empty repository. */
async function siteOn(name: keyof typeof servers): Promise<SshSite> {
  const site = running.get(name) ?? assert.fail(name)
  await site.renew()
  return site
}

test('a client that stops sending in the middle of its push is ended', {
  ...exhaustive,
  ...options,
}, async () => {
  const site = await siteOn('impatient')
  await using project = await createLargeProject(2 * mib)
  const body = await pushBody(project.path, 'main')
  const { client, channel } = await startPush(site)
  await send(client, channel, body.subarray(0, mib))
  await until(
    'git takes the pack',
    async () => (await leftoversIn(site.service.dataDir)).length > 0,
  )
  assert.deepEqual(await ending(client), {
    text: 'svc: No data was transferred for 5 seconds.\n',
    code: 128,
  })
  await site.untilNothingIsLeft()
  assert.deepEqual(await site.refs(), [])
  client.socket.destroy()
})

test('a client may be silent before its commands, and before its pack, for as long as it answers', {
  ...exhaustive,
  ...options,
}, async () => {
  const site = await siteOn('impatient')
  await using project = await createProject()
  const body = await pushBody(project.path, 'main', 'other')
  const commandBytes = body.indexOf('PACK')
  const { client, channel } = await startPush(site)
  await answerProbes(client, probesPerStall + 1)
  client.send(message(messages.channelData, channel, body.subarray(0, commandBytes)))
  await answerProbes(client, probesPerStall + 1)
  client.send(message(messages.channelData, channel, body.subarray(commandBytes)))
  assert.match(String(await client.next(messages.channelData)), /ok refs\/heads\/main/)
  client.socket.destroy()
  await site.untilNothingIsLeft()
})

test('a push whose hook takes longer than a stall may take succeeds', {
  ...exhaustive,
  ...options,
}, async () => {
  const site = await siteOn('impatient')
  await using project = await createProject()
  const hook = join(project.path, '.git/hooks/pre-push')
  await mkdir(dirname(hook), { recursive: true })
  await writeFile(hook, '#!/bin/sh\nexec sleep 7\n', { mode: 0o755 })
  await site.git(project.path, ['push', '--quiet', site.remote(), 'HEAD:main'])
  assert.match(String(await site.refs()), /refs\/heads\/main$/)
})

for (const [what, start] of [
  ['git-upload-pack', startFetch],
  ['git-receive-pack', startPush],
] as const)
  test(`a client of ${what} that answers no more is ended`, {
    ...exhaustive,
    ...options,
  }, async () => {
    const site = await siteOn('impatient')
    const { client } = await start(site)
    assert.deepEqual(await ending(client), {
      text: 'svc: No data was transferred for 5 seconds.\n',
      code: 128,
    })
    client.socket.destroy()
    await site.untilNothingIsLeft()
  })

test('a client that ignores its window is cut off alone', options, async () => {
  const site = await siteOn('usual')
  const witness = await site.connect()
  const client = await site.connect()
  const channel = await client.openSession()
  for (let sent = 0; sent < 3 * mib; sent += 32_768) {
    client.send(message(messages.channelData, channel, Buffer.alloc(32_768)))
  }
  await client.closed
  await witness.openSession()
  witness.socket.destroy()
})

test('a push that turns out too large is rejected with a message', options, async () => {
  const site = await siteOn('small')
  await using project = await createLargeProject(3 * mib)
  const push = site.git(project.path, ['push', site.remote(), 'HEAD:main'])
  await assert.rejects(push, /at most 1048576 bytes|exceeds maximum/)
  await site.untilNothingIsLeft()
  assert.deepEqual(await site.refs(), [])
})

// Before version 2, a session has the limit of 16 requests.
for (const [version, maxBytes] of [
  ['version=0', 16 * mib],
  ['version=2', mib],
] as const) {
  test(`a fetch request that is too large is rejected, ${version}`, options, async () => {
    const site = await siteOn('small')
    await using project = await createProject()
    await site.git(project.path, ['push', '--quiet', site.remote(), 'HEAD:main'])
    const client = await site.connect()
    const channel = await client.openSession()
    client.send(message(messages.channelRequest, channel, 'env', false, 'GIT_PROTOCOL', version))
    client.send(execRequest(channel, "git-upload-pack '/site.git'"))
    const want = packet(`want ${await project.git('rev-parse', 'HEAD')}\n`)
    const heading = [packet('command=fetch\n'), Buffer.from('0001')]
    const wants = Array.from({ length: (2 * maxBytes) / want.length }, () => want)
    const whole = Buffer.concat([...(version === 'version=2' ? heading : []), ...wants])
    void send(client, channel, whole).catch(() => {})
    const { text, code } = await ending(client)
    assert.match(text, new RegExp(`at most ${maxBytes} bytes`))
    assert.equal(code, 128)
    client.socket.destroy()
    await site.untilNothingIsLeft()
  })
}

test('a clone beyond the limit fails with a message and 128', options, async () => {
  const site = await siteOn('narrow')
  await using project = await createLargeProject(16 * mib)
  await site.git(project.path, ['push', '--quiet', site.remote(), 'HEAD:main'])
  const first = await site.connect()
  const channel = await first.openSession(0)
  first.send(execRequest(channel, "git-upload-pack '/site.git'"))
  await send(first, channel, cloneBody(await project.git('rev-parse', 'HEAD')))
  const clone = () => site.git('/', ['clone', '--quiet', '--bare', site.remote(), site.newFolder()])
  const refusal = await until('the turn is taken', () =>
    clone().then(
      () => false,
      (error) => error,
    ),
  )
  assert.equal(refusal.code, 128)
  assert.match(refusal.stderr, /svc: .*(busy|later|again)/i)
  const { stdout } = await site.git('/', ['ls-remote', site.remote()])
  assert.match(stdout, /refs\/heads\/main$/m, 'listing refs needs no turn')
  first.socket.destroy()
  await until('the turn is free again', () =>
    clone().then(
      () => true,
      () => false,
    ),
  )
})

test(
  'a client that still sends when it is refused may end its input before the channel closes',
  options,
  async () => {
    const site = await siteOn('small')
    await using project = await createProject()
    const parts = await packOf(project.path)
    await project.commit('large', randomBytes(mib))
    const tooLarge = await packOf(project.path)
    const capabilities = 'report-status side-band-64k push-options'
    const twice = { branches: ['main', 'main'] }
    const refused: [Buffer, RegExp][] = [
      [toPushBody(parts, { ...twice, capabilities }), /updates the ref .* twice/],
      [toPushBody(parts, twice), /updates the ref .* twice/],
      [
        toPushBody(parts, { branches: ['a'], capabilities, options: Array(101).fill('x') }),
        /at most 100 options/,
      ],
      [Buffer.from('no request of Git'), /does not begin as a push/],
      [toPushBody(tooLarge, { branches: ['a'] }), /at most 1048576/],
    ]
    for (const [body, expected] of refused) {
      const { client, channel } = await startPush(site)
      await send(client, channel, body)
      const shown = [messages.channelData, messages.channelExtendedData]
      let text = ''
      for (;;) {
        const next = await client.next(...shown, messages.channelEof)
        if (!next || next[0] === messages.channelEof) break
        text += next.toString('latin1')
      }
      assert.match(text, expected)
      client.send(message(messages.globalRequest, 'still-there', true))
      const next = await client.next(messages.requestFailure, messages.channelClose)
      assert.equal(next?.[0], messages.requestFailure, text)
      client.send(message(messages.channelData, channel, Buffer.from('more')))
      client.send(message(messages.channelEof, channel))
      assert.match(String(await client.next(messages.channelRequest)), /exit-status/)
      assert.ok(await client.next(messages.channelClose))
      client.socket.destroy()
    }
    // One that does not end is not read for ever.
    const { client, channel } = await startPush(site)
    await send(client, channel, Buffer.from('no request of Git'))
    await client.next(messages.channelEof)
    await send(client, channel, Buffer.alloc(2 * lingerMaxBytes))
    client.socket.destroy()
    await site.untilNothingIsLeft()
  },
)

test('errors of a push are the same as over HTTP', options, async () => {
  const site = await siteOn('usual')
  await using project = await createProject()
  await makeUnsafeTree(project)
  const over = async (remote: string) => {
    const push = site.git(project.path, ['push', remote, 'unsafe:refs/heads/main'])
    const { stderr }: { stderr: string } = await push.then(
      () => assert.fail('It was accepted.'),
      (error) => error,
    )
    return stderr.split('\n').filter((line) => /^(remote|error| !)/.test(line) && !/To /.test(line))
  }
  const overSsh = await over(site.remote())
  assert.match(overSsh.join('\n'), /hasDotgit/)
  const masked = (lines: string[]) => lines.map((line) => line.replace(/'\S+:\/\/\S+'/, "'…'"))
  assert.deepEqual(masked(overSsh), masked(await over(site.service.admin.remote('site'))))
  await site.untilNothingIsLeft()
})

test('a damaged pack is rejected with the message of git', options, async () => {
  const site = await siteOn('usual')
  await using project = await createProject()
  const body = await pushBody(project.path, 'main')
  const { client, channel } = await startPush(site)
  randomBytes(20).copy(body, body.length - 20)
  await send(client, channel, body)
  const said: string[] = []
  for (;;) {
    const next = await client.next(messages.channelData, messages.channelClose)
    if (next?.[0] !== messages.channelData) break
    said.push(next.toString('latin1', 9))
  }
  assert.match(said.join(''), /unpack index-pack abnormal exit|ng refs\/heads\/main/)
  client.socket.destroy()
  await site.untilNothingIsLeft()
  assert.deepEqual(await site.refs(), [])
})

test('large packs are transferred intact with every cipher', {
  ...exhaustive,
  ...options,
}, async () => {
  const site = await siteOn('usual')
  await using project = await createLargeProject(5 * mib)
  const head = await project.git('rev-parse', 'HEAD')
  const ciphers = [
    ...['chacha20-poly1305@openssh.com', 'aes128-gcm@openssh.com'],
    ...['aes256-ctr', 'aes128-ctr -m hmac-sha2-256'],
  ]
  for (const [index, cipher] of ciphers.entries()) {
    const copy = site.newFolder()
    const [name, with_] = [`branch-${index}`, `-c ${cipher}`]
    await site.renew()
    await site.git(project.path, ['push', '--quiet', site.remote(), `HEAD:${name}`], with_)
    const clone = ['clone', '--quiet', '--bare', '-b', name, site.remote(), copy]
    await site.git('/', clone, with_)
    const { stdout, stderr } = await git(copy, ['fsck', '--full', '--strict'])
    assert.equal(stdout + stderr.replace(/^(notice|Checking).*$/gm, '').trim(), '')
    assert.equal((await git(copy, ['rev-parse', 'HEAD'])).stdout, head)
  }
})

/** Answers probes of the server, as a client that does not know them. */
async function answerProbes(client: RawSsh, count: number): Promise<void> {
  for (let number = 0; number < count; number++) {
    assert.ok(await client.next(messages.globalRequest))
    client.send(message(messages.requestFailure))
  }
}

async function startFetch(site: SshSite) {
  const client = await site.connect()
  const channel = await client.openSession()
  client.send(message(messages.channelRequest, channel, 'env', false, 'GIT_PROTOCOL', 'version=2'))
  client.send(execRequest(channel, "git-upload-pack '/site.git'"))
  await client.next(messages.channelData)
  return { client, channel }
}

async function startPush(site: SshSite) {
  const client = await site.connect()
  const channel = await client.openSession()
  client.send(execRequest(channel, "git-receive-pack '/site.git'"))
  await client.next(messages.channelData)
  return { client, channel }
}

/** How much more each client may send. */
const windows = new WeakMap<RawSsh, number>()

/** Sends data as far as the window goes, and the rest as it opens. */
async function send(client: RawSsh, channel: number, bytes: Buffer): Promise<void> {
  for (let sent = 0; sent < bytes.length; ) {
    const window = windows.get(client) ?? firstWindowBytes
    const piece = bytes.subarray(sent, sent + Math.min(window, 32_768))
    if (piece.length > 0) client.send(message(messages.channelData, channel, piece))
    sent += piece.length
    windows.set(client, window - piece.length)
    if (window > piece.length) continue
    const adjust = await client.next(messages.channelWindowAdjust, messages.channelClose)
    if (adjust?.[0] !== messages.channelWindowAdjust) return
    windows.set(client, window - piece.length + adjust.readUInt32BE(5))
  }
}

/** What a command says on standard error until it ends, and its exit code. */
async function ending(client: RawSsh): Promise<{ text: string; code: number | undefined }> {
  let text = ''
  for (;;) {
    const next = await client.next(messages.channelExtendedData, messages.channelRequest)
    if (next?.[0] !== messages.channelExtendedData) {
      return { text, code: next?.readUInt32BE(next.length - 4) }
    }
    text += next.toString('utf8', 13)
  }
}

/** A branch whose tree has a folder that git would take for its own. */
async function makeUnsafeTree(project: Project): Promise<void> {
  const blob = await project.git('rev-parse', 'HEAD:readme.txt')
  await project.git('update-index', '--add', '--cacheinfo', `100644,${blob},a/b`)
  const inner = (await project.git('write-tree')).trim()
  const entry = Buffer.concat([Buffer.from('40000 .GIT\0'), Buffer.from(inner, 'hex')])
  await writeFile(`${project.path}/tree`, entry)
  const tree = await project.git('hash-object', '-t', 'tree', '-w', '--literally', 'tree')
  const commit = await project.git('commit-tree', '-m', 'Unsafe', tree)
  await project.git('branch', 'unsafe', commit)
}
