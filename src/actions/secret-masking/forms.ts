import { base64Encodings, type Encoding, encodingsOf, wrap } from './text-encodings.ts'

/** A byte sequence to mask: whole in `head`, or its first `headLength` bytes, with `bytes` to create the whole. */
export type Form = { head: Buffer; bytes?: () => Buffer }

/** The byte sequences to mask for a secret value. */
export type Forms = {
  /** Masked everywhere. */
  anywhere: Form[]
  /** A very short value, which is masked only where no letters or digits surround it. */
  word: Buffer | undefined
}

/** The maximum bytes by which a form is indexed. */
export const headLength = 32

/** Masking shorter forms would hide half of all output and protect hardly anything. */
export const formMinBytes = 4

/** Forms of longer values are created when their head is found: those of 100 secrets of 48 KiB would take 100 MB. */
const eagerMaxLength = 1024

/** Enough characters for a head in any encoding. */
const headSourceLength = 2 * headLength

/** In a value with more lines, only the longest are masked one by one. */
const maxLines = 2000

/**
 * Creates the forms of a secret value. White space around it is not masked. A value of less than four bytes is masked
 * only as a separate word, in no encoding. Its lines are masked, unencoded, if they have four bytes and a letter or digit.
 */
export function formsOf(value: string): Forms {
  const text = value.trim().toWellFormed()
  const bytes = Buffer.from(text)
  if (bytes.length === 0) return { anywhere: [], word: undefined }
  if (bytes.length < formMinBytes) return { anywhere: [], word: bytes }
  const encodings: Encoding[] = [
    ...encodingsOf(text),
    ...base64Encodings(bytes.length),
    ...hexEncodings(bytes.length),
  ]
  const forms = encodings.map((encode) => toForm(text, encode))
  // A value that was stored with quotation marks is often used without them.
  const unquoted = /^"(.{4,})"$/s.exec(text)?.[1]
  const pieces = [...linesOf(text), ...(unquoted === undefined ? [] : [unquoted])]
  return { anywhere: [...forms, ...pieces.map(toPlainForm)], word: undefined }
}

function toForm(text: string, encode: Encoding): Form {
  if (text.length <= eagerMaxLength) return toPlainForm(encode(text))
  let bytes: Buffer | undefined
  return {
    head: Buffer.from(encode(text.slice(0, headSourceLength).toWellFormed())).subarray(
      0,
      headLength,
    ),
    bytes: () => {
      bytes ??= Buffer.from(encode(text))
      return bytes
    },
  }
}

function toPlainForm(text: string): Form {
  return { head: Buffer.from(text) }
}

function linesOf(text: string): string[] {
  const lines = text.split(/[\r\n]+/)
  if (lines.length === 1) return []
  const significant = new Set(
    lines.map((line) => line.trim()).filter((line) => isSignificant(line)),
  )
  const longestFirst = [...significant].sort((a, b) => b.length - a.length)
  return longestFirst.slice(0, maxLines)
}

function isSignificant(line: string): boolean {
  return Buffer.byteLength(line) >= formMinBytes && /[\p{L}\p{N}]/u.test(line)
}

/** The line length of `xxd -p`. */
const lineWidth = 60

/** Hexadecimal encodings: contiguous, with spaces as by `od`, with colons, and in lines. */
function hexEncodings(byteLength: number): Encoding[] {
  const layouts: Encoding[] = [
    (hex) => hex,
    (hex) => hex.replaceAll(/..(?=.)/g, '$& '),
    (hex) => hex.replaceAll(/..(?=.)/g, '$&:'),
    ...(byteLength * 2 > lineWidth ? [(hex: string) => wrap(hex, lineWidth)] : []),
  ]
  return layouts.flatMap((layout) => [
    (text: string) => layout(toHex(text)),
    (text: string) => layout(toHex(text).toUpperCase()),
  ])
}

function toHex(text: string): string {
  return Buffer.from(text).toString('hex')
}
