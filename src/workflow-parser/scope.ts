/** A value of an expression. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

/** What an expression is evaluated in. */
export type Scope = {
  /** By name, `github` and the like. A context that is not here gives null. */
  contexts: Record<string, Json>
  /** What `success()`, `failure()` and `cancelled()` answer. */
  status: { success: boolean; failure: boolean; cancelled: boolean }
  /** The SHA-256 in hex over the files of the workspace that match, or an empty text. */
  hashFiles: (patterns: string[]) => string
}
