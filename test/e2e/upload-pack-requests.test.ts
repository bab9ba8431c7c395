// Tags: each-store

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { after, before, test } from 'node:test'
import { delimiterPacket, flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { objectFormat } from '../support/object-format.ts'
import { programs, without } from '../support/programs.ts'
import { gitHeaders } from '../support/raw-git.ts'
import { type SshSite, startSshSite } from '../support/ssh-site.ts'

const skip = without('openssh')

const requestMaxBytes = 2 ** 20
const limits = { SVC_FETCH_REQUEST_MAX: '1MiB', SVC_GIT_MEMORY_MAX: '64MiB' }

let site: SshSite
let project: Project

before(async () => {
  site = await startSshSite({ env: limits })
  project = await createProject()
  await project.commit('large.txt', 'x'.repeat(10_000))
  await project.git('push', '--quiet', site.service.admin.remote('site'), 'main')
})

after(async () => {
  await site[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

const command = (name: string, ...args: string[]) =>
  Buffer.concat([
    packet(`command=${name}`),
    packet(`object-format=${objectFormat}`),
    delimiterPacket,
    ...args.map((line) => packet(`${line}\n`)),
    flushPacket,
  ])

/** Sends a request over both transports; each response, after the advertisement over SSH. */
async function send(protocol: string, body: Buffer, { token } = site.service.admin) {
  const response = await fetch(`${site.service.url}/repos/site.git/git-upload-pack`, {
    method: 'POST',
    headers: {
      ...(gitHeaders('git-upload-pack', token, body.length) as Record<string, string>),
      'git-protocol': protocol,
    },
    body,
  })
  const { stdout, stderr } = await site.exchange('git-upload-pack', protocol, body)
  return [
    Buffer.from(await response.arrayBuffer()).toString('latin1'),
    stdout.slice(stdout.indexOf('0000') + 4) + stderr,
  ]
}

test('the sizes of objects are served by object-info of version 2, whether or not a ref leads to them', {
  skip,
}, async () => {
  const ids = (await project.git('rev-parse', 'HEAD', 'HEAD:large.txt')).split('\n')
  const orphan = await project.commit('orphan.txt')
  const remote = site.service.admin.remote('site')
  await project.git('push', '--quiet', remote, 'main')
  await project.git('reset', '--quiet', '--hard', 'HEAD~')
  await project.git('push', '--quiet', '--force', remote, 'main')
  const missing = '1'.repeat(orphan.length)
  const sizes = await Promise.all(
    [...ids, orphan].map(async (id) => `${id} ${await project.git('cat-file', '-s', id)}`),
  )
  const lines = ['size', ...sizes]
  const oids = [...ids, orphan].map((id) => `oid ${id}`)
  for (const [request, expected] of [
    [command('object-info', 'size', ...oids), lines],
    [command('object-info', 'size', ...oids, `oid ${missing}`), [...lines, `${missing} `]],
    [
      command('object-info', 'oid HEAD', 'size'),
      ['size', "ERR object-info: protocol error, expected to get oid, not 'HEAD'"],
    ],
  ] as const) {
    const whole = `${expected.map((line) => packet(line)).join('')}0000`
    assert.deepEqual(await send('version=2', request), [whole, whole])
  }
  const advertised = await site.exchange('git-upload-pack', 'version=2', flushPacket)
  assert.match(advertised.stdout, /object-info=size\n/)
})

// Before 2.52, git remembers each repetition of an object that is not a commit.
test('an object that a client has again and again takes little memory, up to the limit of a request', {
  ...exhaustive,
  skip,
}, async () => {
  const ids = (await project.git('rev-parse', 'HEAD', 'HEAD^{tree}', 'HEAD:large.txt')).split('\n')
  const [commit = ''] = ids
  const line = Buffer.concat(
    [...ids, '1'.repeat(commit.length)].map((id) => packet(`have ${id}\n`)),
  )
  const request = (protocol: string, bytes: number) => {
    const start =
      protocol === 'version=2'
        ? [
            packet('command=fetch'),
            packet(`object-format=${objectFormat}`),
            delimiterPacket,
            packet(`want ${commit}\n`),
          ]
        : [packet(`want ${commit} side-band-64k\n`), flushPacket]
    const haves = Buffer.alloc(Math.floor(bytes / line.length) * line.length, line)
    return Buffer.concat([...start, haves, packet('done\n'), flushPacket])
  }
  const tooLarge = (bytes: number) => new RegExp(`may have at most ${bytes} bytes\\.\n$`)
  for (const protocol of ['version=0', 'version=1', 'version=2']) {
    const usual = request(protocol, requestMaxBytes - 1000)
    for (const response of await send(protocol, usual)) assert.match(response, /PACK/, protocol)
    const large = request(protocol, requestMaxBytes + 1000)
    const [overHttp = '', overSsh = ''] = await send(protocol, large)
    assert.match(overHttp, tooLarge(requestMaxBytes))
    // There, these are not requests but sessions.
    const isSession = protocol !== 'version=2'
    assert.match(overSsh, isSession ? /PACK/ : tooLarge(requestMaxBytes))
    if (!isSession) continue
    const endless = request(protocol, 16 * requestMaxBytes + 1000)
    const { stderr } = await site.exchange('git-upload-pack', protocol, endless)
    assert.match(stderr, tooLarge(16 * requestMaxBytes))
  }
})

test('git archive --remote of a newer client works over HTTP', {
  skip: without('git-2.47'),
}, async () => {
  const remote = `--remote=${site.service.admin.remote('site')}`
  await using folder = await temporaryFolder()
  const archive = (...args: string[]) => git(folder.path, ['archive', ...args], newerClient())
  await archive(remote, '--output=site.tar', 'main')
  await project.git('archive', `--output=${join(folder.path, 'local.tar')}`, 'main')
  const [remotely, locally] = ['site.tar', 'local.tar'].map((name) =>
    readFile(join(folder.path, name)),
  )
  assert.deepEqual(await remotely, await locally)
  await assert.rejects(archive(remote, 'nowhere'), /no such ref: nowhere/)
})

const newerClient = () => ({
  PATH: [programs['git-2.47'].find(), process.env.PATH].join(delimiter),
})

test('clients of several versions filter, complete and negotiate over both transports', {
  ...exhaustive,
  skip: skip || without('git-2.47'),
}, async () => {
  await using folder = await temporaryFolder()
  const remotes = [site.service.admin.remote('site'), site.remote()]
  await project.commit('sparse', '/large.txt\n')
  await project.git('push', '--quiet', remotes[0] ?? '', 'main')
  const filters = [
    ['blob:none'],
    ['blob:limit=1k'],
    ['tree:0'],
    ['tree:1', 'blob:none'],
    ['object:type=commit'],
    ['combine:tree:2+blob:limit=1k'],
    ['sparse:oid=main:sparse'],
  ]
  const asked = ['transfer.bundleURI=true', 'transfer.advertiseSID=true', 'push.negotiate=true']
  const offered = ['fetch.uriProtocols=https', 'promisor.acceptFromServer=all']
  const settings = [...asked, ...offered].flatMap((setting) => ['-c', setting])
  const clients = [{}, newerClient()].flatMap((env) => remotes.map((remote) => ({ env, remote })))
  for (const [number, filter] of filters.entries()) {
    const { env, remote = '' } = clients[number % clients.length] ?? {}
    const copy = join(folder.path, `copy-${number}`)
    const run = (...args: string[]) =>
      git(folder.path, [...settings, ...args], { ...site.sshEnv, ...env })
    const options = filter.map((part) => `--filter=${part}`)
    await run('clone', '--quiet', '--no-checkout', ...options, remote, copy)
    await run('-C', copy, 'checkout', '--quiet', 'main')
    assert.equal(await readFile(join(copy, 'large.txt'), 'utf8'), 'x'.repeat(10_000))
    await run('-C', copy, 'fetch', '--quiet', '--refetch', '--filter=blob:none')
    await run('-C', copy, 'commit', '--quiet', '--allow-empty', '-m', 'more')
    await run('-C', copy, 'push', '--quiet', 'origin', `HEAD:refs/heads/more-${number}`)
    await run('-C', copy, 'fsck')
  }
})
