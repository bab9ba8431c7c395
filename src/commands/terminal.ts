/** Where a command writes, what it may read, and what it may ask. */
export type Terminal = {
  out: (text: string) => void
  /** The start of standard input: all of it, unless it is longer than anything that a command takes. */
  read: () => Promise<string>
  /** Asks a person; undefined when nobody is there to answer. */
  ask: ((question: string) => Promise<string>) | undefined
  /** Shows how far a command is; on a terminal in one line that is written anew, and removed by an empty text. */
  progress: (text: string) => void
  /** From now on, Ctrl-C aborts this signal, and the command ends by itself; a second one ends it at once. */
  interruptible: () => AbortSignal
}

export function toJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
