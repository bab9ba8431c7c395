import { toSafeLines } from '#base/safe-text.ts'
import type { Keyboard } from './keyboard.ts'

/** Input and output of a command. */
export type Terminal = {
  /** Writes to standard output: text without what would control a terminal, bytes as they are. */
  out: (text: string | Uint8Array) => void
  /** Writes bytes to standard output, and waits until they are taken. */
  write: (bytes: Uint8Array) => Promise<void>
  /** Writes text to standard error, without what would control a terminal. */
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

/** Makes a terminal whose texts cannot control it, also when they quote a server or a repository. */
export function toSafeTerminal(terminal: Terminal): Terminal {
  const { out, err, ask } = terminal
  return {
    ...terminal,
    out: (text) => out(typeof text === 'string' ? toSafeLines(text) : text),
    err: (text) => err(toSafeLines(text)),
    ask: ask && ((question) => ask(toSafeLines(question))),
  }
}
