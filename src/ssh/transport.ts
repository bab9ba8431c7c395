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
    // For libssh2 before 1.11, which has no encrypt-then-MAC. With CTR these are secure, and CBC is not offered.
    'hmac-sha2-256',
    'hmac-sha2-512',
  ],
  compress: ['none'],
  lang: [],
}

// Far below the limits of each cipher (RFC 5647; RFC 4344, section 3), for clients that never re-key.
const rekeyAfterBytes = 16 * 1024 ** 3
const payloadStart = 5
// With more unread replies than this, no further requests are read.
const unreadMaxBytes = 128 * 1024
// More messages than all channels can have waiting for a key exchange.
const maxWaiting = 10_000

type Options = {
  hostKey: HostKey
  /** Signature algorithms that clients may use: `server-sig-algs`, RFC 8308, section 3.1. */
  signatureAlgorithms: readonly string[]
  /** How long a key exchange may take. */
  kexTimeoutMs: number
  /** Receives a message of a higher layer. When it throws, the connection ends. */
  onMessage: (payload: Buffer) => void
  /** Called when sending is possible again. */
  onReady: () => void
}

/**
 * The transport layer of a client's connection: RFC 4253, with strict key exchange
 * (OpenSSH PROTOCOL, section 1.10). Any protocol violation ends the connection.
 */
export function createTransport(socket: Socket, options: Options) {
  const waiting: Buffer[][] = []
  const identification = createIdentificationBuffer()
  const write = createCorkedWriter(socket)
  let isFirstKex = true
  let takesExtInfo = false
  let kexTimer: NodeJS.Timeout | undefined
  let bytesWithKeys = 0
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
      suppressExtInfo(protocol, (isEnabled) => {
        takesExtInfo = isEnabled
      })
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

  function receive(bytes: Buffer): void {
    try {
      const complete = identification(bytes)
      if (complete) protocol.parse(complete, 0, complete.length)
      count(bytes.length)
      if (socket.writableLength > unreadMaxBytes) socket.pause()
    } catch {
      end(disconnectReasons.protocolError, 'Protocol error')
    }
  }

  function limitKex(): void {
    kexTimer ??= setTimeout(close, options.kexTimeoutMs)
  }

  function completeKex(): void {
    clearTimeout(kexTimer)
    kexTimer = undefined
    bytesWithKeys = 0
    // Must be the first message after the key exchange: RFC 8308, section 2.4.
    if (isFirstKex && takesExtInfo) announceSignatures()
    isFirstKex = false
    for (const parts of waiting.splice(0)) encrypt(parts)
    ready()
  }

  function announceSignatures(): void {
    const names = options.signatureAlgorithms.join(',')
    send(message(messages.extInfo, 1, 'server-sig-algs', names))
  }

  function send(...parts: Buffer[]): void {
    if (isOver) return
    if (!isExchangingKeys()) encrypt(parts)
    else if (waiting.length < maxWaiting) waiting.push(parts)
    else end(disconnectReasons.protocolError, 'Too many requests during a key exchange')
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

  function ready(): void {
    if (!isBusy()) options.onReady()
  }

  function isBusy(): boolean {
    return socket.writableNeedDrain || isExchangingKeys()
  }

  function end(reason: number, description: string): void {
    if (isOver) return
    // Sent even during a key exchange, because nothing follows it.
    encrypt([message(messages.disconnect, reason, description, '')])
    close()
  }

  function close(): void {
    if (isOver) return
    isOver = true
    socket.off('data', receive)
    endSoon(socket)
  }

  return {
    /** Sends a message, given in parts; delayed during a key exchange. */
    send,

    /** Whether senders should wait for `onReady`. */
    isBusy,

    /** The session identifier that clients sign: RFC 4252, section 7. */
    sessionId: () => protocol._kex?.sessionID ?? Buffer.alloc(0),

    /** Sends the reason and closes the connection. */
    end,
  }
}

// How long a client has for reading why its connection is closed, and for closing it.
const lingerMs = 5000

/**
 * Sends what is left and closes a socket. What the client still sends is discarded: closed with unread input, the connection
 * would be reset, and the client could lose the reason.
 */
function endSoon(socket: Socket): void {
  socket.end()
  socket.resume()
  setTimeout(() => socket.destroy(), lingerMs).unref()
}

/** Returns a function that passes bytes on once the identification is complete: ssh2 needs it in one piece. */
function createIdentificationBuffer(): (bytes: Buffer) => Buffer | undefined {
  let heading: Buffer | undefined = Buffer.alloc(0)
  return (bytes) => {
    if (!heading) return bytes
    heading = Buffer.concat([heading, bytes])
    const lineEnd = heading.indexOf('\n')
    const length = lineEnd === -1 ? heading.length : lineEnd
    if (length > identificationMaxBytes) throw new Error('The identification is too long.')
    if (lineEnd === -1) return undefined
    const complete = heading
    heading = undefined
    return complete
  }
}

/** Returns a function that writes to a socket, and sends the pieces of a packet and successive messages together. */
function createCorkedWriter(socket: Socket): (bytes: Buffer) => void {
  let isCorked = false
  return (bytes) => {
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
}

/** Suppresses ssh2's own list of signature algorithms, which includes SHA-1 and lacks a comma. */
function suppressExtInfo(protocol: Protocol, onNegotiated: (isEnabled: boolean) => void): void {
  const next = protocol._decipher._onPayload
  protocol._decipher._onPayload = (payload) => {
    const result = next(payload)
    if (payload[0] === messages.kexInit && protocol._kex) {
      onNegotiated(protocol._kex.remoteExtInfoEnabled)
      protocol._kex.remoteExtInfoEnabled = false
    }
    return result
  }
}
