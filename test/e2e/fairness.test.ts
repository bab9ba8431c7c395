// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { until } from '../support/condition.ts'
import { git } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { gitHeaders } from '../support/raw-git.ts'
import { connectRaw } from '../support/raw-http.ts'
import type { Client } from '../support/service.ts'
import { createLargeProject, startSshSite } from '../support/ssh-site.ts'

const mib = 1024 * 1024
const waiting = 40
const env = { SVC_FETCHES_AT_ONCE: '4', SVC_GIT_WAITING: String(waiting) }

test('a storm of clones does not prevent others from cloning and pushing, over either transport', {
  skip: without('openssh'),
}, async () => {
  await using site = await startSshSite({ env })
  const { service } = site
  await using project = await createLargeProject(16 * mib)
  await service.admin.post('/repos', { name: 'other' })
  for (const name of ['site', 'other']) {
    await project.git('push', '--quiet', service.admin.remote(name), 'HEAD:main')
  }
  const commit = await project.git('rev-parse', 'HEAD')
  const [stormer, holder] = [
    await service.client({ username: 'stormer', permissions: ['admin'] }),
    await service.client({ username: 'holder', permissions: ['admin'] }),
  ]

  // Of four turns a storm gets three at most; the last one is taken, too.
  using storm = createStorm(stormer, 'site', commit)
  using held = createStorm(holder, 'other', commit)
  await held.send(1)
  await until('the other one has its turn', () => held.begun().length === 1)
  await storm.send(200)
  await until('all of the storm but what has turns and what waits is refused', () => {
    return storm.begun().length === 3 && storm.refused() === 200 - 3 - waiting
  })

  for (const remote of [service.admin.remote('site'), site.remote()]) {
    await until('the storm fills the queue', async () => {
      const { text } = await service.admin.get('/metrics')
      return text.includes(`svc_git_limiter_waiting{kind="fetch"} ${waiting}\n`)
    })
    const refused = storm.refused()
    const clone = site.git('/', ['clone', '--quiet', '--bare', remote, site.newFolder()])
    await until('one of the storm gives way', () => storm.refused() === refused + 1)
    const before = storm.begun().length
    // One turn becomes free, and no other until the clone has ended.
    storm
      .begun()
      .find((one) => !one.socket.destroyed)
      ?.socket.destroy()
    await clone
    await until('the storm goes on', () => storm.begun().length === before + 1)
    await storm.send(2)

    await project.commit(`pushed-to-${new URL(remote).protocol}`)
    await site.git(project.path, ['push', '--quiet', remote, 'HEAD:main'])
    const { stdout } = await git('/', ['ls-remote', service.admin.remote('site'), 'main'])
    assert.match(stdout, new RegExp(`^${await project.git('rev-parse', 'HEAD')}\t`))
  }
})

/** Clones of one user that are begun and never read to their end. */
function createStorm(client: Client, repository: string, commit: string) {
  const connections: Awaited<ReturnType<typeof connectRaw>>[] = []
  const isAnswered = (status: number) => (one: { received: () => string }) =>
    one.received().startsWith(`HTTP/1.1 ${status}`)
  return {
    begun: () => connections.filter(isAnswered(200)),
    refused: () => connections.filter(isAnswered(503)).length,

    async send(count: number): Promise<void> {
      for (let index = 0; index < count; index++) {
        const connection = await connectRaw(client.url)
        connections.push(connection)
        const body = differentClone(commit, index)
        const headers = gitHeaders('git-upload-pack', client.token, body.length)
        connection.request(`POST /repos/${repository}.git/git-upload-pack`, headers)
        connection.socket.write(body)
        connection.socket.once('data', () => connection.socket.pause())
      }
    },

    [Symbol.dispose]() {
      for (const { socket } of connections) socket.destroy()
    },
  }
}

/** The body of a clone that is like no other one, so that none is served by another's answer. */
function differentClone(commit: string, index: number): Buffer {
  return Buffer.concat([
    packet(`want ${commit} side-band-64k ofs-delta no-progress\n`),
    flushPacket,
    packet(`have ${index.toString(16).padStart(40, '0')}\n`),
    packet('done\n'),
  ])
}
