import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign,
} from 'node:crypto'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { HostKey } from 'ssh2/lib/protocol/Protocol.js'
import { hostKeyFile } from '#config/data-directory.ts'
import { fingerprintOf } from './public-key.ts'
import { createReader, writeString, writeUint32 } from './wire.ts'

const keyType = 'ssh-ed25519'
const comment = 'svc'

type Options = {
  dataDir: string
  /** The file that a setting names, which is never created. */
  file?: string | undefined
  onCreated: (path: string) => void
}

type HostKeySettings = { sshPort: number | string; sshHostKeyFile: string | undefined }

/**
 * Opens the server's host key, in OpenSSH's format. Creates one in a data directory without a key and calls
 * `onCreated`: known clients will warn about the change.
 */
export async function openHostKey({ dataDir, file, onCreated }: Options): Promise<HostKey> {
  const path = file ?? join(dataDir, hostKeyFile)
  const existing = await findHostKey(path)
  if (existing) return existing
  if (file !== undefined) throw new Error(`SVC_SSH_HOST_KEY_FILE: ${file} does not exist.`)
  const created = toHostKey(seedIn(await createKeyFile(path)))
  onCreated(path)
  return created
}

/** The host key in a file; undefined when there is no file. Throws when it is not a key. */
export async function findHostKey(path: string): Promise<HostKey | undefined> {
  const text = await read(path)
  if (text === undefined) return undefined
  try {
    return toHostKey(seedIn(text))
  } catch (error) {
    throw new Error(
      `The SSH host key ${path} is not a private ed25519 key without a passphrase; restore the right file, ` +
        'or move it away to have a new one created (clients will warn about the change).',
      { cause: error },
    )
  }
}

/** The fingerprint of the host key that settings name; empty without SSH or key. */
export async function readHostKeyFingerprint({
  sshPort,
  sshHostKeyFile: file,
}: HostKeySettings): Promise<string> {
  const key = sshPort === 'off' || file === undefined ? undefined : await findHostKey(file)
  return key ? fingerprintOf(key.getPublicSSH()) : ''
}

function toHostKey(seed: Buffer): HostKey {
  // The shortest encoding that Node accepts: PrivateKeyInfo of RFC 8410, section 7.
  const prefix = Buffer.from('302e020100300506032b657004220420', 'hex')
  const key = createPrivateKey({
    key: Buffer.concat([prefix, seed]),
    format: 'der',
    type: 'pkcs8',
  })
  const { x = '' } = createPublicKey(key).export({ format: 'jwk' })
  const blob = toBlob(Buffer.from(x, 'base64url'))
  return { type: keyType, getPublicSSH: () => blob, sign: (data) => sign(null, data, key) }
}

async function createKeyFile(path: string): Promise<string> {
  const { d = '', x = '' } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const publicKey = Buffer.from(x, 'base64url')
  const text = toFile(Buffer.from(d, 'base64url'), publicKey)
  const line = `${keyType} ${toBlob(publicKey).toString('base64')} ${comment}\n`
  await writeFile(`${path}.pub`, line, { mode: 0o644, flush: true })
  const draft = `${path}.new`
  await rm(draft, { force: true })
  await writeFile(draft, text, { mode: 0o600, flag: 'wx', flush: true })
  await rename(draft, path)
  return text
}

async function read(path: string): Promise<string | undefined> {
  return readFile(path, 'latin1').catch((error) => {
    if (error.code === 'ENOENT') return undefined
    throw new Error(`The SSH host key ${path} cannot be read: ${error.message}`, { cause: error })
  })
}

// OpenSSH's PROTOCOL.key: unencrypted keys have these words and a block size of 8.
const magic = 'openssh-key-v1\0'
const unencrypted = ['none', 'none', ''].map(writeString)
const blockBytes = 8
const heading = '-----BEGIN OPENSSH PRIVATE KEY-----'
const ending = '-----END OPENSSH PRIVATE KEY-----'

function toFile(seed: Buffer, publicKey: Buffer): string {
  const check = randomBytes(4)
  const secret = Buffer.concat([
    check,
    check,
    toBlob(publicKey),
    writeString(Buffer.concat([seed, publicKey])),
    writeString(comment),
  ])
  const padding = Buffer.from([1, 2, 3, 4, 5, 6, 7]).subarray(0, -secret.length & (blockBytes - 1))
  const contents = Buffer.concat([
    Buffer.from(magic),
    ...unencrypted,
    writeUint32(1),
    writeString(toBlob(publicKey)),
    writeString(Buffer.concat([secret, padding])),
  ])
  const lines = contents.toString('base64').match(/.{1,70}/g) ?? []
  return `${[heading, ...lines, ending].join('\n')}\n`
}

/** The 32-byte seed of the ed25519 key in a file. Throws when the file contains no such key. */
function seedIn(text: string): Buffer {
  const [, rest = ''] = text.split(heading)
  const [base64 = ''] = rest.split(ending)
  const contents = Buffer.from(base64, 'base64')
  if (!contents.toString('latin1').startsWith(magic)) throw new Error('This is not an OpenSSH key.')
  const reader = createReader(contents, magic.length)
  for (const word of unencrypted) {
    if (!writeString(reader.string()).equals(word)) throw new Error('The key is encrypted.')
  }
  if (reader.uint32() !== 1) throw new Error('The file does not contain exactly one key.')
  reader.string()
  const secret = createReader(reader.string())
  secret.uint32()
  secret.uint32()
  if (secret.text() !== keyType) throw new Error('The key has the wrong type.')
  const publicKey = secret.string()
  const pair = secret.string()
  if (publicKey.length !== 32 || pair.length !== 64) throw new Error('The key is damaged.')
  return pair.subarray(0, 32)
}

function toBlob(publicKey: Buffer): Buffer {
  return Buffer.concat([keyType, publicKey].map(writeString))
}
