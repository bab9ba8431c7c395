import { hash, randomBytes } from 'node:crypto'

const shape = /^[\w-]{43}$/

/** Returns a new secret: 32 random bytes in base64url, also as a code verifier has them (RFC 7636, section 4.1). */
export function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** Whether a string has the form of a secret. */
export function isSecret(text: string): boolean {
  return shape.test(text)
}

/** Returns the stored form of a secret: its SHA-256 in hex. */
export function hashSecret(secret: string): string {
  return hash('sha256', secret)
}

/** The code challenge of a code verifier, by the method S256: RFC 7636, section 4.2. */
export function challengeOf(verifier: string): string {
  return hash('sha256', verifier, 'base64url')
}
