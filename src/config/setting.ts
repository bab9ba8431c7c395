/** A setting: its environment variable, accepted values and default. */
export type Setting<T> = {
  variable: string
  /** Shown by `svc serve --help` and in docs/settings.md. */
  description: string
  accepts: string
  /** The default as a user would write it; empty when the setting is unset by default. */
  fallback: string
  /** A text that leaves the setting unset, as an empty one does. */
  unset?: string
  /** Returns undefined for a text that is not accepted. */
  parse: (text: string) => T | undefined
  /** Returns the specific reason why a text is not accepted, if there is one. */
  fault?: (text: string) => string | undefined
  /** Whether the value must not be repeated in an error text. */
  sensitive?: boolean
}
