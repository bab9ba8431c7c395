/** Where a command writes, what it may read, and what it may ask. */
export type Terminal = {
  out: (text: string) => void
  /** Tells whoever is watching what goes on: standard error. */
  tell: (text: string) => void
  /** Is aborted when the program is asked to end, for a command that does so by itself; a second time ends it at once. */
  interruption: () => AbortSignal
  /** The start of standard input: all of it, unless it is longer than anything that a command takes. */
  read: () => Promise<Buffer>
  /** Asks a person; undefined when nobody is there to answer. */
  ask: ((question: string) => Promise<string>) | undefined
  /** The same for what nobody looking on should see: the answer is not shown. */
  askHidden: ((question: string) => Promise<string>) | undefined
  /** Shows how far a command is; on a terminal in one line that is written anew, and removed by an empty text. */
  progress: (text: string) => void
}

export function toJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
