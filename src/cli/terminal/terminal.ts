import { toSafeLines } from '#base/safe-text.ts'

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
  keyboard: () => Keyboard
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

/** Standard input of an interactive command. Disposing it restores the terminal. */
export type Keyboard = Disposable & {
  /** The size of the terminal in characters; undefined when input or output is no terminal. */
  size: { columns: number; rows: number } | undefined
  /** Reads standard input as it arrives. On a terminal, all keys are input from then on, also Ctrl-C. */
  read: () => AsyncIterable<Buffer>
  /** Aborted by SIGINT, SIGTERM and SIGHUP; a second one ends the program. */
  interrupted: AbortSignal
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

export function openKeyboard(
  host: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'once' | 'off'>,
): Keyboard {
  const { stdin, stdout } = host
  const isTerminal = stdin.isTTY && stdout.isTTY
  let isOpen = true
  const interruption = new AbortController()
  const stopListening = () => {
    for (const signal of signals) host.off(signal, onSignal)
  }
  const onSignal = () => {
    stopListening()
    interruption.abort(new Error('interrupted'))
  }
  for (const signal of signals) host.once(signal, onSignal)
  return {
    size: isTerminal ? { columns: stdout.columns || 80, rows: stdout.rows || 24 } : undefined,

    read() {
      // Node restores the terminal also when it exits otherwise.
      if (isTerminal) stdin.setRawMode(true)
      return stdin
    },

    interrupted: interruption.signal,

    [Symbol.dispose]() {
      if (!isOpen) return
      isOpen = false
      if (isTerminal) stdin.setRawMode(false)
      stopListening()
      // A pending read would keep the process alive.
      stdin.destroy()
    },
  }
}
