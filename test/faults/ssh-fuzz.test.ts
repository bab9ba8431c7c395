// Tags: exhaustive
import assert from 'node:assert/strict'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { test } from 'node:test'
import { packet } from '#git/protocol/pkt-line.ts'
import { messages } from '#ssh/messages.ts'
import { message, writeString } from '#ssh/wire.ts'
import { until } from '../support/condition.ts'
import { processesIn } from '../support/processes.ts'
import { createRandom, type Random } from '../support/random.ts'
import { connectRawSsh, type RawSsh, toLine, userauthRequest } from '../support/raw-ssh.ts'
import { toRounds } from '../support/rounds.ts'
import { type Service, startServiceWithSsh } from '../support/service.ts'

const seed = Number(process.env.SVC_TEST_SEED ?? 20_261_121)
const rounds = toRounds(20)

test(`random input ends only its own connection (seed ${seed})`, async () => {
  await using service = await startServiceWithSsh({
    env: { SVC_SSH_ANONYMOUS_READ: 'true', SVC_SSH_UNAUTHENTICATED_PER_ADDRESS: '100' },
  })
  await service.admin.post('/repos', { name: 'site' })
  const { status } = await service.admin.post('/keys', {
    name: 'own',
    publicKey: toLine(key.publicKey),
  })
  assert.equal(status, 201)
  const random = createRandom(seed)
  await using witness = await createWitness(service)
  for (let round = 0; round < rounds; round++) {
    const attack = random.pick(attacks)
    await attack(service, random)
    if (round % 25 === 0) await witness.speaks()
  }
  await witness.speaks()
  assert.equal((await fetch(`${service.url}/health`)).status, 200)
  await until('every attacker is gone', () => connectionsOf(service) === 1)
  await until('no process is left', () => processesIn(service.dataDir).length === 0)
  assert.deepEqual(service.log().match(/^.*"level":"(error|fatal)".*$/gm), null)
})

const key = generateKeyPairSync('ed25519')
const stranger = generateKeyPairSync('ed25519')

type Attack = (service: Service, random: Random) => Promise<void>

const attacks: [Attack, ...Attack[]] = [
  // Before anything: no SSH at all, or not quite.
  async (service, random) => {
    await throwAt(service, randomBytes(random.below(3000)))
  },
  async (service, random) => {
    const start = random.pick([
      'SSH-2.0-x\r\n',
      'SSH-2.0-x\n',
      'SSH-1.5-x\r\n',
      'GET / HTTP/1.1\r\n',
    ])
    await throwAt(service, Buffer.concat([Buffer.from(start), randomBytes(random.below(40_000))]))
  },
  async (service) => throwAt(service, Buffer.alloc(100_000, 'S')),
  // A packet in the clear in place of the exchange of keys, or a damaged beginning of it.
  async (service, random) => {
    const payload = random.chance(0.5) ? inventMessage(random) : damagedKexInit(random)
    await throwAt(service, Buffer.concat([Buffer.from('SSH-2.0-x\r\n'), inTheClear(payload)]))
  },
  // Right keys, then nonsense before authentication.
  async (service, random) => {
    const client = await connectRawSsh(service.sshPort)
    await client.ready
    if (random.chance(0.5)) await client.requestUserauth()
    await sendNonsense(client, random)
  },
  // Let in, then nonsense.
  async (service, random) => {
    const client = await letIn(service)
    if (random.chance(0.7))
      await client.openSession(random.below(5000), 1024 + random.below(40_000))
    if (random.chance(0.5)) {
      client.send(message(messages.channelRequest, 0, 'exec', true, "git-upload-pack '/site.git'"))
    }
    await sendNonsense(client, random)
  },
  // Damaged after encryption.
  async (service, random) => {
    const client = await letIn(service)
    client.socket.write(randomBytes(1 + random.below(200)))
    await leave(client, random)
  },
  // A claim of a registered key that is nearly right.
  async (service, random) => {
    const client = await connectRawSsh(service.sshPort)
    await client.requestUserauth()
    for (let tries = 1 + random.below(4); tries > 0; tries--) {
      const by = random.chance(0.5) ? key.privateKey : stranger.privateKey
      const sessionId = random.chance(0.7) ? client.sessionId() : randomBytes(32)
      const right = by === key.privateKey && sessionId.equals(client.sessionId())
      const request = userauthRequest('svc', key.publicKey, { by, sessionId })
      client.send(right ? mutated(request, random) : request)
    }
    const answer = await client.next(messages.userauthSuccess, messages.userauthFailure)
    assert.notEqual(answer?.[0], messages.userauthSuccess, 'it was let in')
    await sendNonsense(client, random)
  },
  // Git's protocol, nearly right, on several channels at once.
  async (service, random) => {
    const client = await letIn(service, random.pick(['anonymous', 'svc', 'svc']))
    const channels: number[] = []
    for (let count = 1 + random.below(3); count > 0; count--) {
      const channel = await client.openSession(random.below(3) * 3000, 1024 + random.below(40_000))
      const program = random.pick(['upload-pack', 'receive-pack', 'upload-archive'] as const)
      const version = `version=${random.below(4)}`
      client.send(message(messages.channelRequest, channel, 'env', false, 'GIT_PROTOCOL', version))
      client.send(
        message(messages.channelRequest, channel, 'exec', true, `git-${program} '/site.git'`),
      )
      channels.push(channel)
    }
    for (let count = random.below(12); count > 0; count--) {
      const channel = random.pick([channels[0] ?? 0, ...channels])
      client.send(message(messages.channelData, channel, inventLine(random)))
      if (random.chance(0.3)) {
        client.send(message(messages.channelWindowAdjust, channel, random.below(100_000)))
      }
      if (random.chance(0.1)) client.send(message(messages.channelEof, channel))
    }
    await leave(client, random)
  },
  // Keys exchanged anew at any time, and not to the end.
  async (service, random) => {
    const client = await letIn(service)
    client.rekey()
    if (random.chance(0.5)) client.send(inventMessage(random))
    await leave(client, random)
  },
]

async function sendNonsense(client: RawSsh, random: Random): Promise<void> {
  const count = 1 + random.below(6)
  for (let index = 0; index < count; index++) client.send(inventMessage(random))
  await leave(client, random)
}

async function leave(client: RawSsh, random: Random): Promise<void> {
  if (random.chance(0.2)) client.socket.resetAndDestroy()
  else client.socket.end()
  await client.closed
}

async function letIn(service: Service, as: 'anonymous' | 'svc' = 'anonymous'): Promise<RawSsh> {
  const client = await connectRawSsh(service.sshPort)
  await client.requestUserauth()
  const signed = { by: key.privateKey, sessionId: client.sessionId() }
  client.send(
    as === 'svc'
      ? userauthRequest(as, key.publicKey, signed)
      : message(messages.userauthRequest, as, 'ssh-connection', 'none'),
  )
  await client.next(messages.userauthSuccess)
  return client
}

/** A message as there might be one, with wrong fields more often than right ones. */
function inventMessage(random: Random): Buffer {
  const type = random.chance(0.8) ? random.pick(allTypes) : random.below(256)
  const fields: Buffer[] = []
  const count = random.below(6)
  for (let index = 0; index < count; index++) fields.push(random.pick(inventions)(random))
  const whole = Buffer.concat([Buffer.of(type), ...fields])
  return random.chance(0.3) ? whole.subarray(0, random.below(whole.length) + 1) : whole
}

const zeros = '0'.repeat(40)
const lines = [
  'command=fetch\n',
  'command=ls-refs\n',
  'agent=x',
  'object-format=sha1',
  `want ${zeros}\n`,
  'done\n',
  'argument HEAD\n',
] as const
const moreLines = [
  `${zeros} ${'1'.repeat(40)} refs/heads/x\0report-status side-band-64k`,
  `${zeros} ${zeros} refs/heads/../x\0`,
  'deepen 99999999999\n',
  'filter blob:none\n',
  '',
] as const

/** A line of Git's protocol, or nearly. */
function inventLine(random: Random): Buffer {
  if (random.chance(0.3)) {
    return Buffer.from(random.pick(['0000', '0001', '0002', '0003', 'fff5', 'zzzz', 'PACK']))
  }
  const line = packet(random.pick(random.chance(0.5) ? lines : moreLines))
  return random.chance(0.3) ? mutated(line, random) : line
}

/** The same with a bit flipped somewhere, or without its end. */
function mutated(bytes: Buffer, random: Random): Buffer {
  const copy = Buffer.from(bytes)
  const place = 1 + random.below(copy.length - 1)
  copy[place] = (copy[place] ?? 0) ^ (1 << random.below(8))
  return random.chance(0.2) ? copy.subarray(0, place) : copy
}

const allTypes = Object.values(messages) as [number, ...number[]]
const words = [
  'session',
  'exec',
  'shell',
  'env',
  'pty-req',
  'ssh-userauth',
  'ssh-connection',
] as const
const moreWords = [
  'publickey',
  'none',
  'password',
  'GIT_PROTOCOL',
  'direct-tcpip',
  'svc',
  '',
] as const
const numbers = [0, 1, 2, 9, 255, 32_768, 2 ** 31, 2 ** 32 - 1] as const

const inventions: [(random: Random) => Buffer, ...((random: Random) => Buffer)[]] = [
  (random) => writeString(random.pick(random.chance(0.5) ? words : moreWords)),
  (random) => message(0, random.pick(numbers)).subarray(1),
  (random) => Buffer.of(random.below(3)),
  (random) => writeString(randomBytes(random.below(random.chance(0.9) ? 100 : 30_000))),
  (random) => randomBytes(random.below(20)),
]

function damagedKexInit(random: Random): Buffer {
  const names = [
    'mlkem768x25519-sha256',
    'curve25519-sha256',
    'ssh-ed25519',
    'aes128-gcm@openssh.com',
  ]
  const lists = Array.from({ length: 10 }, () =>
    writeString(names.slice(random.below(4)).join(',')),
  )
  const whole = Buffer.concat([
    Buffer.of(messages.kexInit),
    randomBytes(16),
    ...lists,
    Buffer.alloc(5),
  ])
  const place = random.below(whole.length)
  whole[place] = random.below(256)
  return random.chance(0.3) ? whole.subarray(0, place + 1) : whole
}

/** A packet before there are keys: RFC 4253, section 6. */
function inTheClear(payload: Buffer): Buffer {
  const padding = 4 + ((8 - ((payload.length + 9) % 8)) % 8)
  const length = message(0, 1 + payload.length + padding).subarray(1)
  return Buffer.concat([length, Buffer.of(padding), payload, randomBytes(padding)])
}

async function throwAt(service: Service, bytes: Buffer): Promise<void> {
  const socket = connect(service.sshPort, '127.0.0.1')
  socket.on('error', () => {})
  socket.resume()
  await new Promise<void>((resolve) => {
    socket.on('close', () => resolve())
    socket.write(bytes, () => socket.end())
  })
}

/** A client that was there before all attackers, and still is. */
async function createWitness(service: Service) {
  const client = await letIn(service)
  return {
    async speaks(): Promise<void> {
      const channel = await client.openSession()
      client.send(message(messages.channelRequest, channel, 'exec', true, 'repos'))
      const data = await client.next(messages.channelData)
      assert.match(String(data), /site/)
      await client.next(messages.channelClose)
      client.send(message(messages.channelClose, channel))
    },
    async [Symbol.asyncDispose]() {
      client.socket.destroy()
      await client.closed
    },
  }
}

/** Connections that the server holds on its SSH port: proc(5), /proc/net/tcp. */
function connectionsOf({ sshPort }: Service): number {
  const port = sshPort.toString(16).toUpperCase().padStart(4, '0')
  const established = new RegExp(`^ *\\d+: \\w+:${port} \\w+:\\w+ 0[18] `)
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .filter((line) => established.test(line)).length
}
