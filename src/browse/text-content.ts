import { isUtf8 } from 'node:buffer'

const sampleBytes = 8000
const characterMaxBytes = 4
const marks = [
  { encoding: 'utf-16le', mark: Buffer.from([0xff, 0xfe]) },
  { encoding: 'utf-16be', mark: Buffer.from([0xfe, 0xff]) },
] as const

/** Whether bytes are binary as Git defines it, a NUL among the first of them, and not UTF-16 by their mark. */
export function isBinary(bytes: Buffer): boolean {
  return bytes.subarray(0, sampleBytes).includes(0) && markedEncoding(bytes) === undefined
}

/** Whether bytes are text in UTF-8, judging by the first of them. */
export function looksLikeUtf8(bytes: Buffer): boolean {
  const sample = bytes.subarray(0, sampleBytes)
  if (sample.includes(0)) return false
  if (isUtf8(sample)) return true
  // The sample may end within a character.
  for (let cut = 1; cut < characterMaxBytes && sample.length < bytes.length; cut++)
    if (isUtf8(sample.subarray(0, -cut))) return true
  return false
}

/** Decodes bytes that are not binary: as UTF-16 by their mark, as UTF-8, or else as Windows-1252, which extends Latin-1. */
export function decodeText(bytes: Buffer): { text: string; encoding: string } {
  const encoding = markedEncoding(bytes) ?? (isUtf8(bytes) ? 'utf-8' : 'windows-1252')
  return { text: new TextDecoder(encoding).decode(bytes), encoding }
}

function markedEncoding(bytes: Buffer) {
  return marks.find(({ mark }) => bytes.subarray(0, mark.length).equals(mark))?.encoding
}
