// Tags: exhaustive
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get } from 'node:http'
import { after, before, test } from 'node:test'
import { messages } from '#ssh/messages.ts'
import { message } from '#ssh/wire.ts'
import { until } from '../support/condition.ts'
import { createProject } from '../support/git.ts'
import { assertFrugal } from '../support/memory.ts'
import { without } from '../support/programs.ts'
import type { RawSsh } from '../support/raw-ssh.ts'
import { isSoak, toRounds } from '../support/rounds.ts'
import { execRequest, type SshSite, startSshSite } from '../support/ssh-site.ts'

const skip = without('openssh')
const enough = toRounds(150_000)
// Most of it is uncollected garbage; keeping all messages would take more.
const mayGrow = toRounds(80) * 1024 * 1024

let site: SshSite

before(async () => {
  if (skip) return
  site = await startSshSite()
  await using project = await createProject()
  await site.git(project.path, ['push', '--quiet', site.remote(), 'HEAD:main'])
  // What the server takes for the first flood it would take anyway.
  for (const [, sendOne] of tried) await flood(sendOne, enough / 8)
})

after(() => site?.[Symbol.asyncDispose]())

test('a client that opens its window byte by byte is served, without delaying others', {
  skip,
}, async () => {
  const slow = await site.connect()
  const channel = await slow.openSession(1)
  slow.send(execRequest(channel, 'help'))
  let text = ''
  const read = async () => {
    for (;;) {
      const answer = await slow.next(messages.channelData, messages.channelClose)
      if (answer?.[0] !== messages.channelData) return
      assert.equal(answer.length, 10)
      text += answer.toString('latin1', 9)
      slow.send(message(messages.channelWindowAdjust, channel, 1))
    }
  }
  const clone = ['clone', '--quiet', '--bare', site.remote(), site.newFolder()]
  await Promise.all([read(), site.git('/', clone)])
  assert.match(text, /whoami/)
  slow.socket.destroy()
})

const floods: Record<string, (client: RawSsh) => void> = {
  'global requests': (client) =>
    client.send(message(messages.globalRequest, 'keepalive@openssh.com', true)),
  'requests for channels': (client) =>
    client.send(message(messages.channelOpen, 'session', 0, 1000, 32_768)),
  'requests on a channel': (client) =>
    client.send(message(messages.channelRequest, 0, 'pty-req', true)),
  'messages to ignore': (client) => client.send(message(2, 'x'.repeat(100))),
  'extended data of a byte': (client) =>
    client.send(message(messages.channelExtendedData, 0, 1, 'x')),
  'data of a byte': (client) => client.send(message(messages.channelData, 0, 'x')),
}

/** One of what concerns the connection, and one of what concerns a channel; a soak has the others. */
const usual = new Set(['global requests', 'data of a byte'])
const tried = Object.entries(floods).filter(([what]) => isSoak || usual.has(what))

for (const [what, sendOne] of tried) {
  test(`a flood of ${what} without reading costs little memory and does not delay others`, {
    skip,
  }, async () => {
    await assertFrugal(site.service, () => flood(sendOne, enough), mayGrow)
  })
}

async function flood(sendOne: (client: RawSsh) => void, count: number): Promise<void> {
  const client = await site.connect()
  await client.openSession()
  client.socket.pause()
  for (let sent = 0; sent < count; sent += 5000) {
    for (let one = 0; one < 5000; one++) sendOne(client)
    // A client that is not read from any more does well to end here.
    if (!(await drained(client))) break
    if (sent % 100_000 === 0) await assertHealthy()
  }
  client.socket.destroy()
  await client.closed
}

async function drained({ socket }: RawSsh): Promise<boolean> {
  const deadline = performance.now() + 3000
  return until('it is sent, or not taken', () => {
    if (socket.writableLength === 0 || socket.destroyed) return 'sent'
    return performance.now() > deadline && 'not taken'
  }).then((how) => how === 'sent')
}

async function assertHealthy(): Promise<void> {
  // This process is too busy to notice that the server has closed an idle connection.
  const [response] = await once(get(`${site.service.url}/health`, { agent: false }), 'response')
  response.resume()
  assert.equal(response.statusCode, 200)
}
