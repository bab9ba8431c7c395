/** A text, and the possible secret keys of AWS in it. */
export type ScannedText = {
  text: string
  /** The first key that begins between two offsets, both included. They must not decrease from call to call. */
  secretKeyBetween: (first: number, last: number) => string | undefined
}

/** A kind of credential. */
export type LeakRule = {
  /** The name of the kind, as people see it. */
  kind: string
  /** A literal with which each credential of the kind begins. */
  prefixes: readonly string[]
  /** Returns the credential that begins at an offset, where a prefix is; undefined when there is none. */
  find: (scanned: ScannedText, at: number) => FoundCredential | undefined
}

/** `kind` when it is more precise than that of the rule. */
export type FoundCredential = { secret: string; kind?: string }

/** A credential in a text. */
export type Credential = {
  kind: string
  /** Of a long one, the hash. */
  secret: string
  /** The line of its start, from 1. */
  line: number
}

const shortestRun = 6
const shortestKeyRun = 16
const fewestKeyCharacters = 16
const fewestCharacters = 8
const words = /example|placeholder|redacted|changeme|xxxxx|01234567|12345678|abcdefgh/i
// So short that random characters may have them, hence at the start of a word only.
const shortWords = /(?<![0-9A-Za-z])(?:[Ii]nsert|INSERT|[Yy]our|YOUR)[_-]/

/** Whether a value that has the form of a credential stands for one: an example, dots, the same character repeated. */
export function isPlaceholder(value: string): boolean {
  return (
    words.test(value) ||
    shortWords.test(value) ||
    new Set(value).size < fewestCharacters ||
    longestRun(value) >= shortestRun
  )
}

/** The same for the base64 of a private key, which may have a few zeros in a row. */
export function isPlaceholderKey(base64: string): boolean {
  return new Set(base64).size < fewestKeyCharacters || longestRun(base64) >= shortestKeyRun
}

/** The length of the longest sequence of one character. */
function longestRun(value: string): number {
  let longest = 0
  let run = 0
  for (let at = 0; at < value.length; at++) {
    run = value[at] === value[at - 1] ? run + 1 : 1
    longest = Math.max(longest, run)
  }
  return longest
}
