import { createPublicKey, type KeyObject } from 'node:crypto'
import { isEd25519Point } from './ed25519-point.ts'
import { PublicKeyError } from './public-key-error.ts'
import { createReader, type WireReader } from './wire.ts'

/** The contents of a public key in wire format. */
type KeyParts = {
  key: KeyObject
  /** The application to which the signatures of a security key are bound. */
  application?: Buffer
}

const rsaMinBits = 2048
const rsaMaxBits = 16_384
// OpenSSL refuses larger exponents with a long modulus.
const rsaExponentMaxBytes = 8

/**
 * Accepted key types with parsers of their fields: RFC 4253, section 6.6 (RSA),
 * RFC 5656 (ECDSA), RFC 8709 (Ed25519), and OpenSSH's PROTOCOL.u2f (security keys).
 */
const keyTypes = {
  'ssh-ed25519': (fields) => ({ key: readEd25519(fields) }),
  'ecdsa-sha2-nistp256': (fields) => ({ key: readEcdsa(fields, 'nistp256') }),
  'ecdsa-sha2-nistp384': (fields) => ({ key: readEcdsa(fields, 'nistp384') }),
  'ecdsa-sha2-nistp521': (fields) => ({ key: readEcdsa(fields, 'nistp521') }),
  'ssh-rsa': (fields) => ({ key: readRsa(fields) }),
  'sk-ssh-ed25519@openssh.com': (fields) => ({
    key: readEd25519(fields),
    application: readApplication(fields),
  }),
  'sk-ecdsa-sha2-nistp256@openssh.com': (fields) => ({
    key: readEcdsa(fields, 'nistp256'),
    application: readApplication(fields),
  }),
} satisfies Record<string, (fields: WireReader) => KeyParts>

export type KeyType = keyof typeof keyTypes

export function isKeyType(text: string): text is KeyType {
  return Object.hasOwn(keyTypes, text)
}

export const keyTypeNames = Object.keys(keyTypes)

/**
 * Parses a public key in wire format, which must have the type `type` and contain nothing else. Throws PublicKeyError
 * for a key that is damaged, not in its canonical form, or weak.
 */
export function readKeyBlob(type: KeyType, blob: Buffer): KeyParts {
  try {
    const fields = createReader(blob)
    if (fields.text() !== type) {
      throw new PublicKeyError(
        `The line says ${type}, but the key in it is of another type; send the line of the .pub file as it is.`,
      )
    }
    const parts = keyTypes[type](fields)
    fields.assertEnd()
    return parts
  } catch (error) {
    if (error instanceof PublicKeyError) throw error
    throw new PublicKeyError('The key is damaged; send the line of the .pub file as it is.', {
      cause: error,
    })
  }
}

function readEd25519(fields: WireReader): KeyObject {
  const point = fields.string()
  if (!isEd25519Point(point)) throw new RangeError('This point is not a valid key.')
  return fromJwk({ kty: 'OKP', crv: 'Ed25519', x: point.toString('base64url') })
}

const curves = {
  nistp256: { crv: 'P-256', bytes: 32 },
  nistp384: { crv: 'P-384', bytes: 48 },
  nistp521: { crv: 'P-521', bytes: 66 },
}

function readEcdsa(fields: WireReader, name: keyof typeof curves): KeyObject {
  const { crv, bytes } = curves[name]
  const uncompressed = 4
  if (fields.text() !== name) throw new RangeError('The curve does not match the key type.')
  const point = fields.string()
  if (point.length !== 1 + 2 * bytes || point[0] !== uncompressed) {
    throw new RangeError('The point has the wrong form.')
  }
  const [x, y] = [point.subarray(1, 1 + bytes), point.subarray(1 + bytes)]
  // OpenSSL checks that the point is on the curve.
  return fromJwk({ kty: 'EC', crv, x: x.toString('base64url'), y: y.toString('base64url') })
}

function readRsa(fields: WireReader): KeyObject {
  const [exponent, modulus] = [fields.positiveMpint(), fields.positiveMpint()]
  const bits = modulus.length * 8 - Math.clz32(modulus[0] ?? 0) + 24
  if (bits < rsaMinBits) {
    throw new PublicKeyError(
      `An RSA key needs ${rsaMinBits} bits or more, and this has ${bits}; make an ed25519 key with \`ssh-keygen -t ed25519\`.`,
    )
  }
  if (bits > rsaMaxBits) {
    throw new PublicKeyError(
      `An RSA key may have at most ${rsaMaxBits} bits, and this has ${bits}; make an ed25519 key with \`ssh-keygen -t ed25519\`.`,
    )
  }
  const isSane = exponent.length <= rsaExponentMaxBytes && !exponent.equals(Buffer.of(1))
  if (!isSane || !isOdd(exponent) || !isOdd(modulus)) {
    throw new RangeError('These are not valid numbers of an RSA key.')
  }
  return fromJwk({
    kty: 'RSA',
    e: exponent.toString('base64url'),
    n: modulus.toString('base64url'),
  })
}

function readApplication(fields: WireReader): Buffer {
  const application = fields.string()
  if (application.length === 0) throw new RangeError('The security key has no application.')
  return application
}

function isOdd(number: Buffer): boolean {
  return ((number.at(-1) ?? 0) & 1) === 1
}

function fromJwk(key: Record<string, string>): KeyObject {
  return createPublicKey({ key, format: 'jwk' })
}
