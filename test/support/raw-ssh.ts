import { createPublicKey, type KeyObject, sign } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import Protocol from 'ssh2/lib/protocol/Protocol.js'
import { messages } from '#ssh/messages.ts'
import { message, writeString } from '#ssh/wire.ts'

export type RawSsh = Awaited<ReturnType<typeof connectRawSsh>>

const payloadStart = 5
const patienceMs = 180_000

/** An SSH client that exchanges keys correctly and then sends the given messages. */
export async function connectRawSsh(port: number, from = '127.0.0.1') {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from })
  await once(socket, 'connect')
  const received: Buffer[] = []
  const ready = Promise.withResolvers<void>()
  socket.setNoDelay()
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  void closed.then(() => ready.reject(new Error('closed')))
  ready.promise.catch(() => {})
  let changed = Promise.withResolvers<void>()
  let isClosed = false

  function wake(): void {
    changed.resolve()
    changed = Promise.withResolvers()
  }

  const protocol = new Protocol({
    server: false,
    onWrite: (bytes: Buffer) => socket.writable && socket.write(bytes),
    onError: () => socket.destroy(),
    onHandshakeComplete: () => ready.resolve(),
    messageHandlers: {},
    // The types are those of the server's side.
  } as unknown as ConstructorParameters<typeof Protocol>[0])
  const readTransportMessage = protocol._onPayload
  protocol._onPayload = (payload) => {
    const type = payload[0] ?? 0
    if (type === messages.kexInit) return readTransportMessage(payload)
    received.push(Buffer.from(payload))
    wake()
    return undefined
  }
  socket.on('data', (bytes: Buffer) => {
    try {
      protocol.parse(bytes, 0, bytes.length)
    } catch {
      socket.destroy()
    }
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    isClosed = true
    wake()
  })
  protocol.start()

  function send(...parts: Buffer[]): void {
    const payload = Buffer.concat(parts)
    const packet = protocol._cipher.allocPacket(payload.length)
    packet.set(payload, payloadStart)
    if (socket.writable) protocol._cipher.encrypt(packet)
  }

  /** The next message of one of these types; undefined when the connection ends, as it does if there is none. */
  async function next(...types: number[]): Promise<Buffer | undefined> {
    // A test that waits in vain is to fail, not to wait for ever.
    using _late = disposableTimeout(() => socket.destroy(), patienceMs)
    for (;;) {
      const index = received.findIndex((payload) => types.includes(payload[0] ?? 0))
      if (index !== -1) return received.splice(index, 1)[0]
      if (isClosed) return undefined
      await changed.promise
    }
  }

  return {
    socket,
    send,
    next,
    /** Resolves when keys are exchanged; rejects when the connection ends before. */
    ready: ready.promise,
    closed,
    sessionId: () => protocol._kex?.sessionID ?? Buffer.alloc(0),
    rekey: () => protocol.rekey(),

    async requestUserauth(): Promise<void> {
      await ready.promise
      send(message(messages.serviceRequest, 'ssh-userauth'))
      await next(messages.serviceAccept)
    },

    /** Opens a session channel; the server's number for it. */
    async openSession(window = 2 ** 21, packetBytes = 32_768): Promise<number> {
      send(message(messages.channelOpen, 'session', 0, window, packetBytes))
      const answer = await next(messages.channelOpenConfirmation)
      if (!answer) throw new Error('The server closed the connection.')
      return answer.readUInt32BE(5)
    },
  }
}

/** A client that was let in as `anonymous`. */
export async function letIn(port: number): Promise<RawSsh> {
  const client = await connectRawSsh(port)
  await client.requestUserauth()
  client.send(message(messages.userauthRequest, 'anonymous', 'ssh-connection', 'none'))
  await client.next(messages.userauthSuccess)
  return client
}

/** A request to authenticate with an ed25519 key; signed by the key given, which may be another. */
export function userauthRequest(
  username: string,
  publicKey: KeyObject,
  signed?: { by: KeyObject; sessionId: Buffer },
): Buffer {
  const blob = toBlob(publicKey)
  const request = message(
    messages.userauthRequest,
    username,
    'ssh-connection',
    'publickey',
    signed !== undefined,
    'ssh-ed25519',
    blob,
  )
  if (!signed) return request
  const signature = sign(null, Buffer.concat([writeString(signed.sessionId), request]), signed.by)
  const whole = Buffer.concat([writeString('ssh-ed25519'), writeString(signature)])
  return Buffer.concat([request, writeString(whole)])
}

/** The public key's wire form (RFC 8709, section 4), of either half of a pair. */
export function toBlob(key: KeyObject): Buffer {
  const publicKey = key.type === 'private' ? createPublicKey(key) : key
  const raw = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url')
  return Buffer.concat([writeString('ssh-ed25519'), writeString(raw)])
}

/** The line of a `.pub` file. */
export function toLine(key: KeyObject): string {
  return `ssh-ed25519 ${toBlob(key).toString('base64')}`
}

function disposableTimeout(callback: () => void, timeoutMs: number): Disposable {
  const timer = setTimeout(callback, timeoutMs)
  return { [Symbol.dispose]: () => clearTimeout(timer) }
}
