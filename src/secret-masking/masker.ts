import { FormIndex } from './form-index.ts'
import { formsOf } from './forms.ts'
import { MaskedBytes } from './masked-bytes.ts'
import { Words } from './words.ts'

/** Replaces secret values, and the forms in which they are often printed, by `***`. */
export type Masker = {
  /** Masks a further value from now on: `::add-mask::`. Throws when there are too many. */
  add: (value: string) => void
  /** Masks a whole text. */
  mask: (text: string) => string
  /** Masks the beginning of a text whose rest is not known, without what may be the beginning of a secret. */
  maskBeginning: (text: string) => string
  /** Masks a stream of bytes, across the borders of its chunks. */
  stream: () => MaskedStream
  /** Whether a text holds anything that would be masked. */
  finds: (text: string) => boolean
}

/** Each call gives what is safe to show by now; what may be the start of a secret is held back. */
export type MaskedStream = { push: (chunk: Buffer) => Buffer; end: () => Buffer }

// Each costs memory for as long as the run lasts.
const addedMost = 1000
const addedMaxLength = 256 * 1024

/** Makes a masker for these values; see `formsOf` for what is masked of each. Empty ones mean nothing. */
export function createMasker(values: string[]): Masker {
  const index = new FormIndex()
  const words = new Words()
  const known = new Set<string>()
  let added = 0
  let addedLength = 0
  for (const value of values) add(value)

  return {
    add(value) {
      if (known.has(value)) return
      added += 1
      addedLength += value.length
      if (added > addedMost || addedLength > addedMaxLength) {
        const limits = `${addedMost} values and ${addedMaxLength} characters`
        throw new Error(`More than ${limits} cannot be masked besides the secrets.`)
      }
      add(value)
    },
    mask: (text) => maskText(text).text,
    maskBeginning: (text) => new MaskedBytes(index, words).push(Buffer.from(text)).toString(),
    stream: () => new MaskedBytes(index, words),
    finds: (text) => maskText(text).hasFound,
  }

  function add(value: string): void {
    if (known.has(value)) return
    known.add(value)
    const { anywhere, word } = formsOf(value)
    for (const form of anywhere) index.add(form)
    if (word !== undefined) words.add(word)
  }

  function maskText(text: string): { text: string; hasFound: boolean } {
    const stream = new MaskedBytes(index, words)
    const masked = Buffer.concat([stream.push(Buffer.from(text)), stream.end()])
    // Untouched, a text comes back as it was, half characters and all.
    return { text: stream.hasFound ? masked.toString() : text, hasFound: stream.hasFound }
  }
}
