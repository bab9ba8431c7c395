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
  const onSignal = () => interruption.abort(new Error('interrupted'))
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
      for (const signal of signals) host.off(signal, onSignal)
      // A pending read would keep the process alive.
      stdin.destroy()
    },
  }
}
