/** A setting: where it comes from, what it accepts, and what it is when nothing is said. */
export type Setting<T> = {
  variable: string
  /** Says what a value does, in one sentence; shown by `svc serve --help` and in docs/settings.md. */
  description: string
  accepts: string
  /** The default as a user would write it; empty when the setting is unset by default. */
  fallback: string
  /** The value, or undefined for a text that is not accepted. */
  parse: (text: string) => T | undefined
  /** What is wrong with a text that is not accepted, when more can be said. */
  fault?: (text: string) => string | undefined
  /** Whether the value must not be repeated in an error text. */
  sensitive?: boolean
}
