import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { Sensitive } from '#base/sensitive.ts'

/**
 * Encrypts and decrypts values with AES-256-GCM (NIST SP 800-38D). The first key, of 32 bytes each, encrypts; all can
 * decrypt. A sealed value is: version (1 byte), key id (8), nonce (12), ciphertext, tag (16).
 */
export type Vault = {
  /** The ids of all keys; the first one encrypts. */
  keyIds: string[]
  /** Encrypts a value. Throws if there is no key: check `keyIds` first. */
  seal: (value: Sensitive<string>, place: SecretBinding) => Sealed
  /** The id of the key that has encrypted a value. */
  keyIdOf: (sealedValue: Uint8Array) => string
  /** Decrypts a value of this scope and name. */
  open: (sealedValue: Uint8Array, place: SecretBinding) => Opened
}

/** The repository or namespace, and the name, to which a sealed value is bound. */
export type SecretBinding = { scopeId: string; name: string }

/** An encrypted value, and the id of its key in hex. */
type Sealed = { keyId: string; sealedValue: Uint8Array }

/** The decrypted value, or the reason why decryption failed, as the end of a sentence. */
type Opened = { value: Sensitive<string> } | { fault: string }

type Key = { id: Buffer; bytes: Buffer }

const cipher = 'aes-256-gcm'
const version = 1
const keyIdBytes = 8
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + keyIdBytes + nonceBytes
const damaged = { fault: 'the stored value is damaged, or belongs to another secret' }

export function createVault(keys: Sensitive<readonly Buffer[]>): Vault {
  const ring = new Map<string, Key>()
  for (const bytes of keys.reveal()) {
    const id = idOf(bytes)
    if (!ring.has(id.toString('hex'))) ring.set(id.toString('hex'), { id, bytes })
  }
  const [first] = ring.values()

  return {
    keyIds: [...ring.keys()],

    seal(value, place) {
      if (!first) throw new Error('There is no key to encrypt with.')
      // Random nonces are safe for 2^32 values per key: SP 800-38D, section 8.3.
      const head = Buffer.concat([Buffer.of(version), first.id, randomBytes(nonceBytes)])
      const sealing = createCipheriv(cipher, first.bytes, nonceIn(head), {
        authTagLength: tagBytes,
      }).setAAD(bindingTo(place))
      const text = [sealing.update(value.reveal(), 'utf8'), sealing.final()]
      const sealedValue = Buffer.concat([head, ...text, sealing.getAuthTag()])
      return { keyId: first.id.toString('hex'), sealedValue }
    },

    keyIdOf,

    open(sealedValue, place) {
      const sealed = Buffer.from(sealedValue)
      if (sealed.length < headBytes + tagBytes || sealed[0] !== version) return damaged
      const keyId = keyIdOf(sealed)
      const key = ring.get(keyId)
      if (!key) return { fault: `it is sealed with a key that is not configured, ${keyId}` }
      const opening = createDecipheriv(cipher, key.bytes, nonceIn(sealed), {
        authTagLength: tagBytes,
      })
      opening.setAAD(bindingTo(place)).setAuthTag(sealed.subarray(-tagBytes))
      try {
        const text = [opening.update(sealed.subarray(headBytes, -tagBytes)), opening.final()]
        return { value: new Sensitive(Buffer.concat(text).toString('utf8')) }
      } catch {
        // An invalid tag has several possible causes.
        return damaged
      }
    },
  }
}

// The id identifies a key and reveals nothing about it.
function idOf(key: Buffer): Buffer {
  return createHash('sha256')
    .update('svc vault key id\0')
    .update(key)
    .digest()
    .subarray(0, keyIdBytes)
}

function keyIdOf(sealedValue: Uint8Array): string {
  return Buffer.from(sealedValue.subarray(1, 1 + keyIdBytes)).toString('hex')
}

// JSON is unambiguous for all names.
function bindingTo({ scopeId, name }: SecretBinding): Buffer {
  return Buffer.from(JSON.stringify([version, scopeId, name]))
}

function nonceIn(sealed: Buffer): Buffer {
  return sealed.subarray(1 + keyIdBytes, headBytes)
}
