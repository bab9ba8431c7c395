import { createHash } from 'node:crypto'
import { trimEndOf } from '#base/trim-end.ts'
import { isKeyType, type KeyType, keyTypeNames, readKeyBlob } from './key-blob.ts'
import { PublicKeyError } from './public-key-error.ts'

export type PublicKey = {
  type: KeyType
  /** The wire form (RFC 4253, section 6.6). */
  blob: Buffer
  /** Empty without a comment. */
  comment: string
  /** As `ssh-keygen -lf` prints it. */
  fingerprint: string
  /** Type, base64 and comment, with one space between them. */
  line: string
}

const maxLength = 16_384
const keyTypeLike = /^(ssh|ecdsa|sk)-[a-z0-9-]+(@openssh\.com)?$/
// Characters that would make one line look like two, or like another line.
const unprintable = /[\0-\x1f\x7f-\x9f\u2028\u2029]/

/**
 * Parses the line of an OpenSSH .pub file: a type, a key in base64, and optionally a comment. Throws
 * PublicKeyError for anything else, and for a key that is weak or of a type that is not accepted.
 */
export function parsePublicKey(text: string): PublicKey {
  refuseOtherFiles(text)
  const line = text.trim()
  if (line === '') throw new PublicKeyError('The key is empty; send the line of a .pub file.')
  if (/[\r\n]/.test(line)) {
    throw new PublicKeyError('There are several lines; send one key at a time, on one line.')
  }
  const [, type = '', base64 = '', comment = ''] =
    /^([^ \t]+)(?:[ \t]+([^ \t]+))?(?:[ \t]+(.*))?$/s.exec(line) ?? []
  if (!isKeyType(type)) throw wrongType(type, line)
  if (unprintable.test(comment) || !comment.isWellFormed()) {
    throw new PublicKeyError('The comment has a control character; take it out.')
  }
  const blob = Buffer.from(base64, 'base64')
  if (base64 === '' || blob.toString('base64') !== base64) {
    throw new PublicKeyError(
      `What follows ${type} is not base64; send the line of the .pub file as it is.`,
    )
  }
  readKeyBlob(type, blob)
  return {
    type,
    blob,
    comment,
    fingerprint: fingerprintOf(blob),
    line: `${type} ${base64}${comment && ` ${comment}`}`,
  }
}

/** The fingerprint of a key's wire form, as `ssh-keygen -lf` prints it. */
export function fingerprintOf(blob: Buffer): string {
  return `SHA256:${trimEndOf(createHash('sha256').update(blob).digest('base64'), '=')}`
}

function refuseOtherFiles(text: string): void {
  const isArmored = text.includes('BEGIN ') && text.includes('PRIVATE KEY')
  if (isArmored || text.includes('PuTTY-User-Key-File')) {
    throw new PublicKeyError(
      'This is a private key, which must not leave its owner: consider it exposed, make a new one with `ssh-keygen -t ed25519`, and send the .pub file.',
    )
  }
  if (text.length > maxLength) {
    throw new PublicKeyError(
      `The key is longer than ${maxLength} characters; send the one line of a .pub file.`,
    )
  }
  if (text.includes('\0')) {
    throw new PublicKeyError(
      'This is not plain text but perhaps UTF-16, which some shells write; send the line of the .pub file as UTF-8.',
    )
  }
  if (text.includes('---- BEGIN SSH2 PUBLIC KEY')) {
    throw new PublicKeyError(
      'This is a key in the format of RFC 4716; turn it into a line with `ssh-keygen -i -f <file>`.',
    )
  }
  if (text.includes('-----BEGIN')) {
    throw new PublicKeyError(
      'This is a PEM file; turn it into a line with `ssh-keygen -i -m PKCS8 -f <file>`, or `-m PEM` for an RSA PUBLIC KEY.',
    )
  }
}

// Does not quote the input: it may be part of a private key.
function wrongType(type: string, line: string): PublicKeyError {
  if (type === 'ssh-dss') {
    return new PublicKeyError(
      'DSA keys are too weak; make an ed25519 key with `ssh-keygen -t ed25519`.',
    )
  }
  if (/-cert-v\d+@openssh\.com$/.test(type)) {
    return new PublicKeyError(
      'This is a certificate; send the plain key, whose file does not end in -cert.pub.',
    )
  }
  if (line.split(/[ \t]+/, 100).some((word, index) => index > 0 && keyTypeLike.test(word))) {
    return new PublicKeyError(
      'There are options before the key; send the line from the key type on, as in the .pub file.',
    )
  }
  return new PublicKeyError(
    `A key is a line that starts with its type, one of ${keyTypeNames.join(', ')}; send the line of a .pub file.`,
  )
}
