import type { Socket } from 'node:net'
import Protocol, { type HostKey } from 'ssh2/lib/protocol/Protocol.js'
import { addHybridKex, hybridKex } from './hybrid-kex.ts'
import { disconnectReasons, messages, softwareName } from './messages.ts'
import { message } from './wire.ts'

export type Transport = ReturnType<typeof createTransport>

// The line that begins a connection: RFC 4253, section 4.2.
const identificationMaxBytes = 255

const kex = [
  hybridKex,
  'curve25519-sha256',
  'curve25519-sha256@libssh.org',
  'ecdh-sha2-nistp256',
  'ecdh-sha2-nistp384',
  'ecdh-sha2-nistp521',
]
const oneWay = {
  cipher: [
    'aes128-gcm@openssh.com',
    'aes256-gcm@openssh.com',
    'chacha20-poly1305@openssh.com',
    'aes128-ctr',
    'aes192-ctr',
    'aes256-ctr',
  ],
  mac: [
    'hmac-sha2-256-etm@openssh.com',
    'hmac-sha2-512-etm@openssh.com',
    // libssh2 before 1.11 has no encrypt-then-MAC. Beside CTR these are sound, too, and CBC is not offered.
    'hmac-sha2-256',
    'hmac-sha2-512',
  ],
  compress: ['none'],
  lang: [],
}

// Far below what each cipher bears (RFC 5647 and RFC 4344, section 3): clients that never exchange keys anew.
const rekeyAfterBytes = 16 * 1024 ** 3
const payloadStart = 5
// Answers that a client does not read: with more than this waiting, no more of its questions are read.
const unreadMaxBytes = 128 * 1024
// More messages than every channel could have waiting for new keys.
const waitingMost = 10_000

type Options = {
  hostKey: HostKey
  /** Names of the signatures that a client's key may make: `server-sig-algs`, RFC 8308, section 3.1. */
  signatureAlgorithms: readonly string[]
  /** Time in which a client must end an exchange of keys that has begun. */
  kexTimeoutMs: number
  /** Takes a message of a layer above. What it throws ends the connection. */
  onMessage: (payload: Buffer) => void
  /** Called when what could not be sent can be. */
  onReady: () => void
}

/**
 * The transport layer of a connection that a client opened: RFC 4253, with strict key exchange
 * (OpenSSH PROTOCOL, section 1.10). Whatever is wrong with what a client sends ends its connection.
 */
export function createTransport(socket: Socket, options: Options) {
  const waiting: Buffer[][] = []
  let isFirstKex = true
  let takesExtInfo = false
  let kexTimer: NodeJS.Timeout | undefined
  let bytesWithKeys = 0
  let isCorked = false
  let isOver = false

  const protocol = new Protocol({
    server: true,
    ident: softwareName,
    hostKeys: { [options.hostKey.type]: options.hostKey },
    offer: { kex, serverHostKey: [options.hostKey.type], cs: oneWay, sc: oneWay },
    onWrite: write,
    onError: close,
    onHeader: () => {
      addHybridKex(protocol, kex)
      holdBackExtInfo()
    },
    onHandshakeComplete: completeKex,
    messageHandlers: { DISCONNECT: close },
  })
  const readTransportMessage = protocol._onPayload
  protocol._onPayload = (payload) => {
    const type = payload[0] ?? 0
    if (type === messages.kexInit) limitKex()
    if (type <= messages.debug || type === messages.kexInit) return readTransportMessage(payload)
    if (type !== messages.extInfo) options.onMessage(payload)
    return isOver ? Number.POSITIVE_INFINITY : undefined
  }

  socket.on('data', receive)
  socket.on('drain', () => {
    socket.resume()
    ready()
  })
  socket.on('error', () => {})
  socket.once('close', () => {
    isOver = true
    clearTimeout(kexTimer)
    protocol.cleanup()
  })
  protocol.start()
  limitKex()

  let heading: Buffer | undefined = Buffer.alloc(0)

  function receive(bytes: Buffer): void {
    try {
      const whole = heading ? completeHeading(bytes) : bytes
      if (whole) protocol.parse(whole, 0, whole.length)
      count(bytes.length)
      if (socket.writableLength > unreadMaxBytes) socket.pause()
    } catch {
      end(disconnectReasons.protocolError, 'Protocol error')
    }
  }

  // ssh2 reads the identification right only if it comes in one piece.
  function completeHeading(bytes: Buffer): Buffer | undefined {
    heading = Buffer.concat([heading ?? Buffer.alloc(0), bytes])
    const lineEnd = heading.indexOf('\n')
    if (
      lineEnd > identificationMaxBytes ||
      (lineEnd === -1 && heading.length > identificationMaxBytes)
    ) {
      throw new Error('The identification is too long.')
    }
    if (lineEnd === -1) return undefined
    const whole = heading
    heading = undefined
    return whole
  }

  function limitKex(): void {
    kexTimer ??= setTimeout(close, options.kexTimeoutMs)
  }

  function completeKex(): void {
    clearTimeout(kexTimer)
    kexTimer = undefined
    bytesWithKeys = 0
    // It must be the first message after the keys: RFC 8308, section 2.4.
    if (isFirstKex && takesExtInfo) announceSignatures()
    isFirstKex = false
    for (const parts of waiting.splice(0)) encrypt(parts)
    ready()
  }

  // What ssh2 would say of signatures names SHA-1 and lacks a comma.
  function holdBackExtInfo(): void {
    const next = protocol._decipher._onPayload
    protocol._decipher._onPayload = (payload) => {
      const result = next(payload)
      if (payload[0] === messages.kexInit && protocol._kex) {
        takesExtInfo = protocol._kex.remoteExtInfoEnabled
        protocol._kex.remoteExtInfoEnabled = false
      }
      return result
    }
  }

  function announceSignatures(): void {
    const names = options.signatureAlgorithms.join(',')
    send(message(messages.extInfo, 1, 'server-sig-algs', names))
  }

  function send(...parts: Buffer[]): void {
    if (isOver) return
    if (!isExchangingKeys()) encrypt(parts)
    else if (waiting.length < waitingMost) waiting.push(parts)
    else end(disconnectReasons.protocolError, 'Too much is asked amid an exchange of keys')
  }

  function encrypt(parts: Buffer[]): void {
    const length = parts.reduce((sum, part) => sum + part.length, 0)
    const packet = protocol._cipher.allocPacket(length)
    let position = payloadStart
    for (const part of parts) {
      packet.set(part, position)
      position += part.length
    }
    protocol._cipher.encrypt(packet)
    count(length)
  }

  function isExchangingKeys(): boolean {
    return protocol._kexinit !== undefined
  }

  function count(bytes: number): void {
    bytesWithKeys += bytes
    if (bytesWithKeys < rekeyAfterBytes || isExchangingKeys() || isOver) return
    limitKex()
    protocol.rekey()
  }

  // A packet is written in pieces, and messages often come together.
  function write(bytes: Buffer): void {
    if (socket.destroyed || socket.writableEnded) return
    if (!isCorked) {
      isCorked = true
      socket.cork()
      process.nextTick(() => {
        isCorked = false
        socket.uncork()
      })
    }
    socket.write(bytes)
  }

  function ready(): void {
    if (!isBusy()) options.onReady()
  }

  function isBusy(): boolean {
    return socket.writableNeedDrain || isExchangingKeys()
  }

  function end(reason: number, description: string): void {
    if (isOver) return
    // Not held back by an exchange of keys: nothing comes after it.
    encrypt([message(messages.disconnect, reason, description, '')])
    close()
  }

  function close(): void {
    if (isOver) return
    isOver = true
    socket.off('data', receive)
    // What it still sends is not read; a client that does not read either is not waited for.
    socket.end()
    setTimeout(() => {
      if (socket.writableLength === 0) socket.destroy()
    }, goodbyeMs).unref()
    setTimeout(() => socket.destroy(), lingerMs).unref()
  }

  return {
    /** Sends a message, given in parts; while keys are exchanged it waits. */
    send,

    /** Whether more should not be sent yet; `onReady` is called when it should. */
    isBusy,

    /** Identifies the connection in what clients sign: RFC 4252, section 7. */
    sessionId: () => protocol._kex?.sessionID ?? Buffer.alloc(0),

    /** Says why, and closes the connection. */
    end,
  }
}

// What has been handed to the system reaches the client by itself.
const goodbyeMs = 500
const lingerMs = 5000
