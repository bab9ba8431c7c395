import type { FoundCredential } from './credential.ts'
import { isPlaceholderKey } from './credential.ts'

const headerPattern = /-----BEGIN ((?:[A-Z0-9]{1,12} ){0,3})PRIVATE KEY( BLOCK)?-----/y
// Larger than the PEM of an RSA key of 16,384 bits.
const keyMaxLength = 16 * 1024
const jsonBefore = /"private_key"\s{0,8}:\s{0,8}"$/
const opensshMagic = 'openssh-key-v1\0'
const shortestBytes = 32
const maxHeaderLines = 8
// With spaces for the line ends, as a shell prints a variable without quotes. Words of a sentence are shorter.
const base64Line = /^(?:[0-9A-Za-z+/]{40,80} ){0,400}[0-9A-Za-z+/]{1,16384}={0,2}$/

/**
 * Finds the private key in PEM (RFC 7468), in the form of OpenSSH or of OpenPGP, that begins at an offset. Its lines may
 * be indented or quoted, or be the escaped lines of a string in a program or in JSON. An encrypted key is found, too: its
 * passphrase can be guessed offline for ever. A header without a key, as in documentation, is not.
 */
export function findPrivateKey(text: string, at: number): FoundCredential | undefined {
  headerPattern.lastIndex = at
  const [header, label = ''] = headerPattern.exec(text) ?? []
  if (header === undefined) return undefined
  const { body, headers } = readBody(
    upTo('-----', text.slice(at + header.length, at + keyMaxLength)),
    /[+-]/.test(text[at - 1] ?? ''),
  )
  const bytes = Buffer.from(body, 'base64')
  if (bytes.length < shortestBytes || isPlaceholderKey(body)) return undefined
  const hasCiphertext = headers.includes('ENCRYPTED')
  if (!hasCiphertext && !isKey(label, bytes)) return undefined
  const isEncrypted = hasCiphertext || label.includes('ENCRYPTED')
  if (jsonBefore.test(text.slice(Math.max(0, at - 40), at)))
    return { kind: 'Google service account key', secret: body }
  const kind = `${isEncrypted ? 'encrypted ' : ''}${kindOf(label)}private key`
  return { kind, secret: body }
}

function kindOf(label: string): string {
  if (label.startsWith('OPENSSH')) return 'OpenSSH '
  return label.startsWith('PGP') ? 'OpenPGP ' : ''
}

function isKey(label: string, bytes: Buffer): boolean {
  if (label.startsWith('OPENSSH')) return bytes.toString('latin1').startsWith(opensshMagic)
  // The tag of a packet has its highest bit set: RFC 9580, section 4.2.
  if (label.startsWith('PGP')) return (bytes[0] ?? 0) >= 0x80
  return isSequence(bytes)
}

/** Whether bytes are one sequence in DER of exactly their length. */
function isSequence(bytes: Buffer): boolean {
  const [tag, first = 0] = bytes
  if (tag !== 0x30) return false
  if (first < 0x80) return bytes.length === first + 2
  const size = first & 0x7f
  if (size === 0 || size > 3) return false
  return bytes.length === bytes.readUIntBE(2, size) + size + 2
}

/** Reads base64 up to the first line that is none; `headers` are the lines like `Proc-Type: 4,ENCRYPTED` before it. */
function readBody(text: string, isDiff: boolean): { body: string; headers: string } {
  const pieces: string[] = []
  const headers: string[] = []
  for (const line of text.split(/\r\n|\r|\n|\\r\\n|\\n|\\r/)) {
    // Punctuation of programs, such as the end of a string and the `+` of a concatenation.
    if (!/[0-9A-Za-z]/.test(line)) continue
    const bare = toBare(isDiff ? line.replace(/^[+-]/, '') : line)
    if (/^[\w-]{2,30}: /.test(bare) && pieces.length === 0 && headers.length < maxHeaderLines) {
      headers.push(bare)
    } else if (base64Line.test(bare)) pieces.push(bare.replaceAll(' ', ''))
    else break
  }
  return { body: pieces.join(''), headers: headers.join('\n') }
}

/** A line without indentation, signs of comments and quotes. Base64 may begin with any of `+` and `/`. */
function toBare(line: string): string {
  const start = line.replace(/^[\s"'`>#*|]{0,64}(?:\/\/\s)?/, '').trimStart()
  return start.trimEnd().replace(/["'`,;\\|.]{1,8}$/, '')
}

/** What is before a delimiter, so that a text of headers alone is not read again for each of them. */
function upTo(delimiter: string, text: string): string {
  const end = text.indexOf(delimiter)
  return end === -1 ? text : text.slice(0, end)
}

const puttyHeader = /PuTTY-User-Key-File-[123]: [\w-]{1,60}/y
const privateLines = /^Private-Lines: (\d{1,3})$/

/** Finds the private key of PuTTY that begins at an offset. */
export function findPuttyKey(text: string, at: number): FoundCredential | undefined {
  puttyHeader.lastIndex = at
  const [header] = puttyHeader.exec(text) ?? []
  if (header === undefined) return undefined
  const rest = text.slice(at + header.length, at + keyMaxLength)
  const lines = upTo('PuTTY-User-Key-File-', rest)
    .split(/\r\n|\r|\n/)
    .map((line) => line.trim())
  const start = lines.findIndex((line) => privateLines.test(line))
  const count = Number(privateLines.exec(lines[start] ?? '')?.[1] ?? 0)
  const body = lines.slice(start + 1, start + 1 + count)
  if (
    start === -1 ||
    count === 0 ||
    !body.every((line) => /^[0-9A-Za-z+/]{1,80}={0,2}$/.test(line))
  )
    return undefined
  const secret = body.join('')
  if (Buffer.from(secret, 'base64').length < shortestBytes || isPlaceholderKey(secret))
    return undefined
  const isEncrypted = lines.some((line) => /^Encryption: aes/.test(line))
  return { secret, kind: `${isEncrypted ? 'encrypted ' : ''}PuTTY private key` }
}
