// Tags: exhaustive, each-store

import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { firstPacket, flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { onlyLocal } from '../support/kind-of-store.ts'
import { formatCapability, gitZeros, objectFormat } from '../support/object-format.ts'
import { sshCommand } from '../support/openssh.ts'
import { without } from '../support/programs.ts'
import { createRandom } from '../support/random.ts'
import { gitHeaders } from '../support/raw-git.ts'
import { toRounds } from '../support/rounds.ts'
import { type SshSite, startSshSite } from '../support/ssh-site.ts'

const skip = without('openssh')
const zeroId = gitZeros
const seed = Number(process.env.SVC_FUZZ_SEED ?? Date.now() % 1_000_000)
const pushes = toRounds(120)
const packEvery = 20
const listRequest = Buffer.concat([
  packet('command=ls-refs\n'),
  packet(`object-format=${objectFormat}\n`),
  Buffer.from('0001'),
  packet('ref-prefix refs/'),
  flushPacket,
])

test('a push is visible to all later readers, over either transport, while refs are packed', {
  skip: skip || onlyLocal,
}, async (t) => {
  t.diagnostic(`SVC_FUZZ_SEED=${seed}, ${pushes} pushes`)
  const random = createRandom(seed)
  await using site = await startSshSite()
  await using project = await createProject()
  const commits = [
    await project.git('rev-parse', 'HEAD'),
    await project.commit('b'),
    await project.commit('c'),
  ]
  await project.git('push', '--quiet', site.service.admin.remote('site'), 'HEAD:refs/heads/main')
  const directory = await directoryOf(site)
  const expected = new Map([['refs/heads/main', commits[2] ?? '']])
  const push = createPusher(site, await emptyPack(project.path))
  await using ssh = await openReader(site, t)

  for (let number = 0; number < pushes; number++) {
    const name = `refs/${random.pick(['heads', 'tags', 'heads/deep'])}/${random.below(12)}`
    const before = expected.get(name) ?? zeroId
    const after = random.pick([zeroId, ...commits])
    if (after === before) continue
    // What maintenance does while others push.
    const packing = number % packEvery === 0 ? git(directory, ['pack-refs', '--all']) : undefined
    await push(name, before, after)
    if (after === zeroId) expected.delete(name)
    else expected.set(name, after)
    const [overHttp, overSsh] = await Promise.all([listOverHttp(site), ssh.list()])
    const wanted = [...expected].map(([ref, id]) => `${id} ${ref}`).sort(byName)
    assert.deepEqual(overHttp, wanted, `over HTTP after push ${number}`)
    assert.deepEqual(overSsh, wanted, `over SSH after push ${number}`)
    await packing
  }
})

test('requests for refs start no git process, over either transport, in any version', {
  skip,
}, async () => {
  await using folder = await temporaryFolder()
  const log = join(folder.path, 'log')
  const shim = join(folder.path, 'git')
  const real = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim()
  await writeFile(log, '')
  await writeFile(shim, `#!/bin/sh\necho "$*" >>'${log}'\nexec '${real}' "$@"\n`)
  await chmod(shim, 0o755)
  await using site = await startSshSite({ env: { PATH: `${folder.path}:${process.env.PATH}` } })
  await using project = await createProject()
  await project.git('tag', '-a', '-m', 'one', 'v1')
  const remotes = [site.service.admin.remote('site'), site.remote()]
  await project.git('push', '--quiet', site.service.admin.remote('site'), 'HEAD:main', 'v1')

  const askAll = async () => {
    const answers: string[] = []
    for (const remote of remotes) {
      for (const version of ['0', '1', '2']) {
        const set = ['-c', `protocol.version=${version}`]
        answers.push((await site.git(project.path, [...set, 'ls-remote', remote])).stdout)
        await site.git(project.path, [...set, 'fetch', '--quiet', remote, 'main'])
        await site.git(project.path, [...set, 'push', '--quiet', remote, 'HEAD:main'])
      }
    }
    return answers
  }
  // What git can do is asked once.
  const first = await askAll()
  assert.equal(new Set(first).size, 1)
  assert.match(first[0] ?? '', /\trefs\/tags\/v1\^\{\}$/)
  const started = await readFile(log, 'utf8')
  assert.match(started, /^upload-pack /m)
  await project.git('push', '--quiet', site.service.admin.remote('site'), 'HEAD:other')
  await writeFile(log, '')
  const second = await askAll()
  assert.match(second[0] ?? '', /\trefs\/heads\/other$/m)
  assert.equal(new Set(second).size, 1)
  const gits = (await readFile(log, 'utf8')).split('\n')
  assert.deepEqual(
    gits.filter((line) => /^(upload-pack|receive-pack|cat-file)/.test(line)),
    [],
  )
})

async function directoryOf({ service }: SshSite): Promise<string> {
  const root = join(service.dataDir, 'repositories')
  const paths = await readdir(root, { recursive: true })
  const found = paths.find((path) => /^..\/[^/]+\.git$/.test(path))
  assert.ok(found)
  return join(root, found)
}

async function emptyPack(project: string): Promise<Buffer> {
  const child = spawn('git', ['pack-objects', '--stdout', '--quiet'], { cwd: project })
  child.stdin.end()
  const chunks: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  await once(child, 'close')
  return Buffer.concat(chunks)
}

function createPusher({ service }: SshSite, pack: Buffer) {
  return async (name: string, before: string, after: string): Promise<void> => {
    const command = packet(`${before} ${after} ${name}\0 report-status atomic${formatCapability}`)
    const body = Buffer.concat([command, flushPacket, ...(after === zeroId ? [] : [pack])])
    const response = await fetch(`${service.url}/repos/site.git/git-receive-pack`, {
      method: 'POST',
      headers: fetchHeaders('git-receive-pack', service.adminToken),
      body,
    })
    const text = await response.text()
    assert.match(text, new RegExp(`ok ${name}\n`), text)
  }
}

async function listOverHttp({ service }: SshSite): Promise<string[]> {
  const response = await fetch(`${service.url}/repos/site.git/git-upload-pack`, {
    method: 'POST',
    headers: {
      ...fetchHeaders('git-upload-pack', service.adminToken),
      'git-protocol': 'version=2',
    },
    body: listRequest,
  })
  assert.equal(response.status, 200)
  return linesIn(Buffer.from(await response.arrayBuffer()))
}

function fetchHeaders(service: 'git-upload-pack' | 'git-receive-pack', token: string) {
  const { authorization, 'content-type': type } = gitHeaders(service, token, 0)
  return { authorization: String(authorization), 'content-type': String(type) }
}

/** One connection of a real client that asks again and again. */
async function openReader(site: SshSite, t: TestContext) {
  const command = sshCommand({ key: site.key.path, knownHosts: `${site.newFolder()}-known` })
  const words = `${command} -o SendEnv=GIT_PROTOCOL -p ${site.service.sshPort} svc@127.0.0.1`.split(
    ' ',
  )
  const [program = '', ...args] = words
  const child = spawn(program, [...args, "git-upload-pack 'site.git'"], {
    env: { PATH: process.env.PATH, GIT_PROTOCOL: 'version=2' },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.after(() => child.kill())
  const answers = answersOf(child)
  await answers.next()
  return {
    async list(): Promise<string[]> {
      child.stdin.write(listRequest)
      const { value } = await answers.next()
      return linesIn(value ?? Buffer.alloc(0))
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      if (child.exitCode === null) await once(child, 'close')
    },
  }
}

/** What comes up to each flush packet. */
async function* answersOf({ stdout }: ChildProcess): AsyncGenerator<Buffer, void, undefined> {
  let bytes = Buffer.alloc(0)
  let parsed = 0
  for await (const chunk of stdout ?? []) {
    bytes = Buffer.concat([bytes, chunk])
    for (;;) {
      const found = firstPacket(bytes.subarray(parsed))
      if (typeof found !== 'object') break
      parsed += found.length
      if (found.packet.kind !== 'flush') continue
      yield bytes.subarray(0, parsed)
      bytes = bytes.subarray(parsed)
      parsed = 0
    }
  }
}

function linesIn(answer: Buffer): string[] {
  const lines: string[] = []
  for (let at = 0; ; ) {
    const found = firstPacket(answer.subarray(at))
    assert.ok(typeof found === 'object', answer.toString('latin1'))
    if (found.packet.kind !== 'data') return lines
    lines.push(found.packet.payload.toString().trim())
    at += found.length
  }
}

function byName(one: string, other: string): number {
  return one.slice(zeroId.length) < other.slice(zeroId.length) ? -1 : 1
}
