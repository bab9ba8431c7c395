/** A text, and the possible secret keys of AWS in it. */
export type ScannedText = {
  text: string
  /** The first one that begins between two offsets, both included, neither before that of a former call. */
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
