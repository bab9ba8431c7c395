/** A setting: its environment variable, accepted values and default. */
export type Setting<T> = {
  variable: string
  /** Shown by `svc serve --help` and in docs/settings.md. */
  description: string
  accepts: string
  /** The default as a user would write it; empty when the setting is unset by default. */
  fallback: string
  /** A text that stands for no value. */
  unset?: string
  /** Returns undefined for a text that is not accepted. */
  parse: (text: string) => T | undefined
  /** Explains why a text is not accepted, where more is known. */
  fault?: (text: string) => string | undefined
  /** Whether the value must not be repeated in an error text. */
  sensitive?: boolean
}
