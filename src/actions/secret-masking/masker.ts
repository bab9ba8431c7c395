import { FormIndex } from './form-index.ts'
import { formsOf } from './forms.ts'
import { MaskedBytes } from './masked-bytes.ts'
import { Words } from './words.ts'

/** Replaces secret values, and their common encodings, by `***`. */
export type Masker = {
  /** Adds a value to mask, as `::add-mask::` does. Throws when there are too many. */
  add: (value: string) => void
  /** Masks a whole text. */
  mask: (text: string) => string
  /** Masks the start of a text whose rest is unknown, and omits a possible start of a secret at its end. */
  maskBeginning: (text: string) => string
  /** Masks a stream of bytes, across chunk boundaries. */
  stream: () => MaskedStream
  /** Whether a text contains anything to mask. */
  finds: (text: string) => boolean
}

/** Each call returns the output that is safe to show; a possible start of a secret is held back. */
export type MaskedStream = { push: (chunk: Buffer) => Buffer; end: () => Buffer }

// Each added value costs memory until the end of the run.
const maxAdded = 1000
const addedMaxLength = 256 * 1024

/** Creates a masker for values; see `formsOf` for the forms of each. Empty values are ignored. */
export function createMasker(values: string[]): Masker {
  const index = new FormIndex()
  const words = new Words()
  const known = new Set<string>()
  let added = 0
  let addedLength = 0
  addAll(values)

  return {
    add(value) {
      if (known.has(value)) return
      added += 1
      addedLength += value.length
      if (added > maxAdded || addedLength > addedMaxLength) {
        const limits = `${maxAdded} values and ${addedMaxLength} characters`
        throw new Error(`More than ${limits} cannot be masked besides the secrets.`)
      }
      addAll([value])
    },
    mask: (text) => maskText(text).text,
    maskBeginning: (text) => new MaskedBytes(index, words).push(Buffer.from(text)).toString(),
    stream: () => new MaskedBytes(index, words),
    finds: (text) => maskText(text).hasFound,
  }

  function addAll(added: string[]): void {
    const forms = [...new Set(added)].filter((value) => !known.has(value)).map(formsOf)
    for (const value of added) known.add(value)
    index.add(forms.flatMap(({ anywhere }) => anywhere))
    for (const { word } of forms) if (word !== undefined) words.add(word)
  }

  function maskText(text: string): { text: string; hasFound: boolean } {
    const stream = new MaskedBytes(index, words)
    const masked = Buffer.concat([stream.push(Buffer.from(text)), stream.end()])
    // An unmasked text is returned as is, including lone surrogates.
    return { text: stream.hasFound ? masked.toString() : text, hasFound: stream.hasFound }
  }
}
