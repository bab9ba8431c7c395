import { createHash, type KeyObject, verify } from 'node:crypto'
import { isKeyType, type KeyType, readKeyBlob } from './key-blob.ts'
import { createReader, type WireReader, writeUint32 } from './wire.ts'

type Scheme = {
  keyType: KeyType
  /** Undefined when the scheme defines its own hash. */
  hash?: 'sha256' | 'sha384' | 'sha512'
  /** Size of each of the two numbers of an ECDSA signature. */
  ecdsaBytes?: number
}

/** Accepted signature algorithms: RFC 8709, RFC 8332, RFC 5656 and OpenSSH's PROTOCOL.u2f. */
const schemes: Record<string, Scheme> = {
  'ssh-ed25519': { keyType: 'ssh-ed25519' },
  'sk-ssh-ed25519@openssh.com': { keyType: 'sk-ssh-ed25519@openssh.com' },
  'ecdsa-sha2-nistp256': { keyType: 'ecdsa-sha2-nistp256', hash: 'sha256', ecdsaBytes: 32 },
  'ecdsa-sha2-nistp384': { keyType: 'ecdsa-sha2-nistp384', hash: 'sha384', ecdsaBytes: 48 },
  'ecdsa-sha2-nistp521': { keyType: 'ecdsa-sha2-nistp521', hash: 'sha512', ecdsaBytes: 66 },
  'sk-ecdsa-sha2-nistp256@openssh.com': {
    keyType: 'sk-ecdsa-sha2-nistp256@openssh.com',
    hash: 'sha256',
    ecdsaBytes: 32,
  },
  'rsa-sha2-512': { keyType: 'ssh-rsa', hash: 'sha512' },
  'rsa-sha2-256': { keyType: 'ssh-rsa', hash: 'sha256' },
}

/** The names of all accepted signature algorithms, for `server-sig-algs` (RFC 8308). */
export const signatureAlgorithms: readonly string[] = Object.keys(schemes)

/** Whether a signature algorithm is accepted and belongs to a key type. */
export function fitsAlgorithm(keyType: string, algorithm: string): boolean {
  return Object.hasOwn(schemes, algorithm) && schemes[algorithm]?.keyType === keyType
}

type Signed = {
  /** The wire form of the public key. */
  blob: Buffer
  /** The algorithm named in the request. */
  algorithm: string
  /** The signature in wire format: the algorithm's name and its output. */
  signature: Buffer
  /** The signed data. */
  data: Buffer
}

/** Whether a signature is valid. False for malformed input; never throws. */
export function verifySignature(signed: Signed): boolean {
  try {
    return verifyWellFormed(signed)
  } catch {
    return false
  }
}

function verifyWellFormed({ blob, algorithm, signature, data }: Signed): boolean {
  const scheme = schemes[algorithm]
  const keyType = createReader(blob).text()
  if (!scheme || !isKeyType(keyType) || !fitsAlgorithm(keyType, algorithm)) return false
  const { key, application } = readKeyBlob(keyType, blob)
  const fields = createReader(signature)
  if (fields.text() !== algorithm) return false
  const proof = toProof(scheme, key, fields.string())
  const signed = application ? withPresence(application, fields, data) : data
  fields.assertEnd()
  return verify(scheme.hash, signed, { key, dsaEncoding: 'ieee-p1363' }, proof)
}

function toProof({ ecdsaBytes }: Scheme, key: KeyObject, bytes: Buffer): Buffer {
  if (ecdsaBytes !== undefined) return toFixedWidth(bytes, ecdsaBytes)
  const { modulusLength } = key.asymmetricKeyDetails ?? {}
  const length = modulusLength === undefined ? 64 : Math.ceil(modulusLength / 8)
  if (bytes.length !== length) throw new RangeError('The signature has the wrong length.')
  return bytes
}

// RFC 5656, section 3.1.2: two mpints. OpenSSL expects both in the same number of bytes.
function toFixedWidth(bytes: Buffer, width: number): Buffer {
  const fields = createReader(bytes)
  const numbers = [fields.positiveMpint(), fields.positiveMpint()]
  fields.assertEnd()
  const padded = numbers.map((number) =>
    Buffer.concat([Buffer.alloc(width - number.length), number]),
  )
  return Buffer.concat(padded)
}

// A security key signs its application, flags, counter and the data: PROTOCOL.u2f.
function withPresence(application: Buffer, fields: WireReader, data: Buffer): Buffer {
  const [flags, counter] = [fields.byte(), fields.uint32()]
  const userPresent = 1
  if ((flags & userPresent) === 0) throw new RangeError('The user was not present.')
  return Buffer.concat([sha256(application), Buffer.of(flags), writeUint32(counter), sha256(data)])
}

function sha256(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest()
}
