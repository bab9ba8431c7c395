import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { messages } from '#ssh/messages.ts'
import { message } from '#ssh/wire.ts'
import { until } from '../support/condition.ts'
import { processesIn } from '../support/processes.ts'
import type { RawSsh } from '../support/raw-ssh.ts'
import { type Service, startServiceWithSsh } from '../support/service.ts'
import { connectAsAnonymous, execute } from '../support/ssh-login.ts'

let service: Service

before(async () => {
  service = await startServiceWithSsh({
    env: { SVC_SSH_ANONYMOUS_READ: 'true', SVC_SSH_CHANNELS: '3', SVC_SSH_COMMAND_MAX: '256' },
  })
  await service.admin.post('/repos', { name: 'site' })
})

after(() => service[Symbol.asyncDispose]())

test('a channel beyond the limit is rejected, and the others continue', async () => {
  const client = await connectAsAnonymous(service.sshPort)
  const channels = [
    await client.openSession(),
    await client.openSession(),
    await client.openSession(),
  ]
  assert.equal(new Set(channels).size, 3)
  await assertNotOpened(client, 2 ** 21, 32_768, /Too many channels are open/)
  const [first = 0] = channels
  client.send(message(messages.channelRequest, first, 'exec', true, 'repos'))
  assert.match(String(await client.next(messages.channelData)), /site/)
  await client.next(messages.channelClose)
  // Until the client has closed it, too, it counts.
  await assertNotOpened(client, 2 ** 21, 32_768, /Too many channels are open/)
  client.send(message(messages.channelClose, first))
  assert.equal(await client.openSession(), first)
  client.socket.destroy()
})

test('commands of one connection run concurrently', async () => {
  const client = await connectAsAnonymous(service.sshPort)
  const waiting = [await client.openSession(), await client.openSession()]
  for (const channel of waiting) {
    client.send(message(messages.channelRequest, channel, 'exec', true, 'git-upload-pack site'))
    let advertised = ''
    while (!advertised.endsWith('0000'))
      advertised += String(await client.next(messages.channelData))
  }
  assert.match(await execute(client, 'repos'), /^site/)
  for (const channel of waiting.reverse()) {
    client.send(message(messages.channelData, channel, Buffer.from('0000')))
    assert.match(String(await client.next(messages.channelRequest)), /exit-status/)
  }
  client.socket.destroy()
})

test('closing a channel ends only its own command', async () => {
  const client = await connectAsAnonymous(service.sshPort)
  const [doomed, other] = [await client.openSession(), await client.openSession()]
  for (const channel of [doomed, other]) {
    client.send(message(messages.channelRequest, channel, 'exec', true, 'git-upload-pack site'))
    await client.next(messages.channelData)
  }
  assert.notEqual(gits().length, 0)
  client.send(message(messages.channelClose, doomed))
  assert.ok(await client.next(messages.channelClose))
  client.send(message(messages.channelData, other, Buffer.from('0000')))
  assert.match(String(await client.next(messages.channelRequest)), /exit-status/)
  await until('no git is left', () => gits().length === 0)
  client.socket.destroy()
})

test('a command that is too long is rejected, and one of the maximum length is not', async () => {
  const client = await connectAsAnonymous(service.sshPort)
  const tooLong = await client.openSession()
  client.send(message(messages.channelRequest, tooLong, 'exec', true, 'whoami'.padEnd(257)))
  const stderr = await client.next(messages.channelExtendedData)
  assert.match(String(stderr), /A command must not be longer than 256 bytes\./)
  const long = await client.openSession()
  client.send(message(messages.channelRequest, long, 'exec', true, 'whoami'.padEnd(256)))
  assert.match(String(await client.next(messages.channelData)), /anonymous/)
  client.socket.destroy()
})

test('a channel with too small packets is rejected', async () => {
  const client = await connectAsAnonymous(service.sshPort)
  for (const packetBytes of [0, 1, 1023]) {
    await assertNotOpened(client, 2 ** 21, packetBytes, /Packets must take 1024 bytes/)
  }
  await client.openSession(2 ** 21, 1024)
  client.socket.destroy()
})

test('data never exceeds the window and the packet size of the client', async () => {
  const client = await connectAsAnonymous(service.sshPort)
  const channel = await client.openSession(100, 1024)
  client.send(message(messages.channelRequest, channel, 'exec', true, 'help'))
  const pieces: Buffer[] = []
  for (;;) {
    const next = await client.next(messages.channelData, messages.channelClose)
    if (next?.[0] !== messages.channelData) break
    const piece = next.subarray(9)
    assert.ok(piece.length <= 100)
    pieces.push(piece)
    client.send(message(messages.channelWindowAdjust, channel, piece.length))
  }
  assert.equal(String(Buffer.concat(pieces)), await execute(client, 'help'))
  client.socket.destroy()
})

const breaches: [string, (client: RawSsh, channel: number) => void][] = [
  [
    'more than the window',
    (client, channel) => {
      const piece = message(messages.channelData, channel, Buffer.alloc(32_768))
      for (let sent = 0; sent <= 2 ** 21; sent += 32_768) client.send(piece)
    },
  ],
  ['data on no channel', (client) => client.send(message(messages.channelData, 99, 'x'))],
  ['the end of no channel', (client) => client.send(message(messages.channelEof, 99))],
  [
    'a request on no channel',
    (client) => client.send(message(messages.channelRequest, 99, 'exec', true, 'x')),
  ],
  [
    'data on a channel that it has closed',
    (client, channel) => {
      client.send(message(messages.channelClose, channel))
      client.send(message(messages.channelData, channel, 'x'))
    },
  ],
  [
    'data on a channel that it has closed while a command runs',
    (client, channel) => {
      client.send(message(messages.channelRequest, channel, 'exec', false, 'git-upload-pack site'))
      client.send(message(messages.channelClose, channel))
      client.send(message(messages.channelData, channel, 'x'))
    },
  ],
  [
    'a window beyond all bounds',
    (client, channel) => client.send(message(messages.channelWindowAdjust, channel, 2 ** 32 - 1)),
  ],
  ['a message that there is not', (client) => client.send(message(192, 'x'))],
]

for (const [what, breach] of breaches) {
  test(`${what} ends only its own connection`, async () => {
    const witness = await connectAsAnonymous(service.sshPort)
    const client = await connectAsAnonymous(service.sshPort)
    breach(client, await client.openSession())
    assert.match(String(await client.next(messages.disconnect)), /Protocol error/)
    await client.closed
    assert.match(await execute(witness, 'repos'), /^site/)
    witness.socket.destroy()
  })
}

async function assertNotOpened(
  client: RawSsh,
  window: number,
  packetBytes: number,
  why: RegExp,
): Promise<void> {
  client.send(message(messages.channelOpen, 'session', 0, window, packetBytes))
  const answer = await client.next(messages.channelOpenFailure, messages.channelOpenConfirmation)
  const shortage = 4
  assert.deepEqual([answer?.[0], answer?.readUInt32BE(5)], [messages.channelOpenFailure, shortage])
  assert.match(String(answer), why)
}

function gits(): number[] {
  return processesIn(service.dataDir).filter((pid) => pid !== service.pid)
}
