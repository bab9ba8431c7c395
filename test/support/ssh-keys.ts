import { execFile } from 'node:child_process'
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { writeString, writeUint32 } from '#ssh/wire.ts'

const execute = promisify(execFile)

/** Makes a key pair at a path with the real ssh-keygen; the line of its .pub file. */
export async function generateKey(path: string, ...options: string[]): Promise<string> {
  await execute('ssh-keygen', ['-q', '-N', '', '-C', 'ada@laptop', '-f', path, ...options])
  return readFile(`${path}.pub`, 'utf8')
}

/** What ssh-keygen prints when it is asked; rejects when it refuses. */
export async function sshKeygen(...args: string[]): Promise<string> {
  return (await execute('ssh-keygen', args)).stdout
}

/** The line of a new ed25519 key, made without ssh-keygen. */
export function newKeyLine(comment = ''): string {
  const { publicKey } = generateKeyPairSync('ed25519')
  return toLine('ssh-ed25519', [rawEd25519(publicKey)], comment)
}

/** A line of a type and the fields that follow it in the wire form. */
export function toLine(type: string, fields: (string | Uint8Array)[], comment = ''): string {
  const blob = Buffer.concat([type, ...fields].map(writeString))
  return `${type} ${blob.toString('base64')}${comment && ` ${comment}`}`
}

/** Security keys as a token would have them, with how it signs (OpenSSH's PROTOCOL.u2f). */
export const securityKeys = {
  'sk-ssh-ed25519@openssh.com': () => {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519')
    return { fields: [rawEd25519(publicKey)], sign: (data: Buffer) => sign(null, data, privateKey) }
  },
  'sk-ecdsa-sha2-nistp256@openssh.com': () => {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const key = { key: privateKey, dsaEncoding: 'ieee-p1363' } as const
    const numbers = (data: Buffer) => {
      const both = sign('sha256', data, key)
      return Buffer.concat([writeMpint(both.subarray(0, 32)), writeMpint(both.subarray(32))])
    }
    return { fields: ['nistp256', rawPoint(publicKey)], sign: numbers }
  },
}

type Touch = { application: string; flags: number; counter: number }

/** The signature of a security key on the wire. */
export function signWithSecurityKey(
  type: string,
  { application, flags, counter }: Touch,
  data: Buffer,
  signBytes: (data: Buffer) => Buffer,
): Buffer {
  const presence = Buffer.concat([Buffer.of(flags), writeUint32(counter)])
  const signed = Buffer.concat([sha256(Buffer.from(application)), presence, sha256(data)])
  return Buffer.concat([writeString(type), writeString(signBytes(signed)), presence])
}

function rawEd25519(key: KeyObject): Buffer {
  return Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url')
}

function rawPoint(key: KeyObject): Buffer {
  const { x = '', y = '' } = key.export({ format: 'jwk' })
  return Buffer.concat([Buffer.of(4), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')])
}

function sha256(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest()
}

/** An mpint of a non-negative number, given as big-endian bytes. */
export function writeMpint(bytes: Uint8Array): Buffer {
  const start = bytes.findIndex((byte) => byte !== 0)
  const digits = start === -1 ? Buffer.alloc(0) : bytes.subarray(start)
  // The top bit is the sign.
  const isHigh = (digits[0] ?? 0) >= 0x80
  return writeString(isHigh ? Buffer.concat([Buffer.alloc(1), digits]) : digits)
}

/** For keys that are limited to no repositories. */
export const noRepositories = {
  idsOf: async () => [],
  namesOf: async () => new Map<string, string>(),
}
