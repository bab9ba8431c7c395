import type { Keyboard } from './keyboard.ts'

/** Input and output of a command. */
export type Terminal = {
  out: (text: string | Uint8Array) => void
  /** Writes bytes to standard output, and waits until they are taken. */
  write: (bytes: Uint8Array) => Promise<void>
  /** Writes to standard error. */
  err: (text: string) => void
  /** Returns a signal that the first SIGINT or SIGTERM aborts, for a command that stops itself; a second one exits at once. */
  interruption: () => AbortSignal
  /** Reads standard input, up to a length that no valid input exceeds. */
  read: () => Promise<Buffer>
  /** Standard input of an interactive command. */
  keyboard: () => Promise<Keyboard>
  /** Prompts the user; undefined when standard input is not a terminal. */
  ask: ((question: string) => Promise<string>) | undefined
  /** Prompts without echo. */
  askHidden: ((question: string) => Promise<string>) | undefined
  /** Shows progress; on a terminal in one line, which each call replaces and an empty text removes. */
  progress: (text: string) => void
}

export function toJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
