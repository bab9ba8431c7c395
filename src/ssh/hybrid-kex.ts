import {
  createHash,
  createPublicKey,
  diffieHellman,
  encapsulate,
  generateKeyPairSync,
} from 'node:crypto'
import type Protocol from 'ssh2/lib/protocol/Protocol.js'
import type { KeyExchange, OnPayload } from 'ssh2/lib/protocol/Protocol.js'
import { messages } from './messages.ts'
import { createReader, writeString } from './wire.ts'

/**
 * OpenSSH's preferred post-quantum key exchange, ML-KEM-768 with X25519: draft-ietf-sshm-mlkem-hybrid-kex. ssh2 lacks
 * it. It differs from X25519 only in the exchanged values, so ssh2 sees a client that chose X25519, and its exchange is
 * given the hybrid values.
 */
export const hybridKex = 'mlkem768x25519-sha256'

const standIn = 'curve25519-sha256'

/** Adds the hybrid exchange to a protocol, for clients that prefer it. `supported` lists all offered exchanges. */
export function addHybridKex(protocol: Protocol, supported: string[]): void {
  const watch =
    (next: OnPayload): OnPayload =>
    (payload) => {
      const isHybrid =
        payload[0] === messages.kexInit && preferred(payload, supported) === hybridKex
      if (!isHybrid) return next(payload)
      const result = next(withStandIn(payload))
      if (protocol._kex) replaceValues(protocol._kex, payload)
      return result
    }
  // The first exchange has a decipher of its own; later ones pass the general one.
  protocol._decipher._onPayload = watch(protocol._decipher._onPayload)
  protocol._onPayload = watch(protocol._onPayload)
}

function replaceValues(exchange: KeyExchange, kexInit: Buffer): void {
  if (exchange.type !== '25519')
    throw new Error('ssh2 did not choose the stand-in of the hybrid exchange.')
  let reply: Buffer
  exchange._remoteKexinit = kexInit
  exchange.convertPublicKey = (received) => received
  exchange.computeSecret = (received) => {
    try {
      const response = respond(received)
      reply = response.reply
      return response.secret
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error))
    }
  }
  // Called after `computeSecret`.
  exchange.getPublicKey = () => reply
}

const kemKeyBytes = 1184
const x25519KeyBytes = 32
// SubjectPublicKeyInfo (RFC 5280, section 4.1) up to the key itself: RFC 9935 and RFC 8410.
const kemPrefix = Buffer.from('308204b2300b0609608648016503040402038204a100', 'hex')
const x25519Prefix = Buffer.from('302a300506032b656e032100', 'hex')

/** The server's part for a client's C_INIT: its response (S_REPLY) and the shared secret K. */
function respond(init: Buffer): { reply: Buffer; secret: Buffer } {
  if (init.length !== kemKeyBytes + x25519KeyBytes) throw new Error('C_INIT has the wrong length.')
  const { ciphertext, sharedKey } = encapsulate(toKey(kemPrefix, init.subarray(0, kemKeyBytes)))
  const keyPair = generateKeyPairSync('x25519')
  const x25519Secret = diffieHellman({
    privateKey: keyPair.privateKey,
    publicKey: toKey(x25519Prefix, init.subarray(kemKeyBytes)),
  })
  const publicKey = keyPair.publicKey.export({ type: 'spki', format: 'der' })
  return {
    reply: Buffer.concat([ciphertext, publicKey.subarray(x25519Prefix.length)]),
    secret: createHash('sha256').update(sharedKey).update(x25519Secret).digest(),
  }
}

function toKey(prefix: Buffer, raw: Buffer) {
  return createPublicKey({ key: Buffer.concat([prefix, raw]), format: 'der', type: 'spki' })
}

// SSH_MSG_KEXINIT (RFC 4253, section 7.1): its number, a cookie of 16 bytes, then lists of names.
const namesStart = 17

/** The key exchange that both sides will choose: the first in the client's list that the server supports. */
function preferred(kexInit: Buffer, supported: string[]): string | undefined {
  const names = createReader(kexInit, namesStart).names()
  return names.find((name) => supported.includes(name))
}

function withStandIn(kexInit: Buffer): Buffer {
  const reader = createReader(kexInit, namesStart)
  const names = reader.names().map((name) => (name === hybridKex ? standIn : name))
  return Buffer.concat([
    kexInit.subarray(0, namesStart),
    writeString(names.join(',')),
    kexInit.subarray(reader.position()),
  ])
}
