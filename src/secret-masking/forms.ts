import { base64Encodings } from './base64-encodings.ts'
import { hexEncodings } from './hex-encodings.ts'
import { type Encoding, encodingsOf } from './text-encodings.ts'

/** A sequence of bytes to be masked: the whole in `head`, or its first `headLength` bytes, and `bytes` to make the whole. */
export type Form = { head: Buffer; bytes?: () => Buffer }

/** What is to be masked of a secret value. */
export type Forms = {
  /** Masked wherever they stand. */
  anywhere: Form[]
  /** A value so short that it is masked only where no letters or digits stand around it. */
  word: Buffer | undefined
}

/** Bytes by which a form is found at first. */
export const headLength = 32

/** A shorter form would hide half of all output, and hardly anything of the secret. */
export const formLeastBytes = 4

/** Forms of longer values are made when their head shows up: 100 secrets of 48 KiB have 100 MB of them. */
const eagerMax = 1024

/** From this many characters any encoding gives a head. */
const headSource = 2 * headLength

/** Of a value with more lines the longest are masked one by one. */
const linesMax = 2000

/**
 * White space around a value is no secret, and not masked. A value of less than four bytes is masked as a word of its
 * own only, in no other form. Lines are masked when they have four bytes and a letter or digit, without encodings.
 */
export function formsOf(value: string): Forms {
  const text = value.trim().toWellFormed()
  const bytes = Buffer.from(text)
  if (bytes.length === 0) return { anywhere: [], word: undefined }
  if (bytes.length < formLeastBytes) return { anywhere: [], word: bytes }
  const encodings: Encoding[] = [
    ...encodingsOf(text),
    ...base64Encodings(bytes.length),
    ...hexEncodings(bytes.length),
  ]
  const forms = encodings.map((encode) => toForm(text, encode))
  // A value that was saved with its quotation marks is often used without.
  const unquoted = /^"(.{4,})"$/s.exec(text)?.[1]
  const pieces = [...linesOf(text), ...(unquoted === undefined ? [] : [unquoted])]
  return { anywhere: [...forms, ...pieces.map(toPlainForm)], word: undefined }
}

function toForm(text: string, encode: Encoding): Form {
  if (text.length <= eagerMax) return toPlainForm(encode(text))
  let bytes: Buffer | undefined
  return {
    head: Buffer.from(encode(text.slice(0, headSource).toWellFormed())).subarray(0, headLength),
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
  const telling = new Set(lines.map((line) => line.trim()).filter((line) => isTelling(line)))
  const longestFirst = [...telling].sort((a, b) => b.length - a.length)
  return longestFirst.slice(0, linesMax)
}

function isTelling(line: string): boolean {
  return Buffer.byteLength(line) >= formLeastBytes && /[\p{L}\p{N}]/u.test(line)
}
