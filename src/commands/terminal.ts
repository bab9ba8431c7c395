/** Where a command writes, what it may read, and what it may ask. */
export type Terminal = {
  out: (text: string) => void
  /** The start of standard input: all of it, unless it is longer than anything that a command takes. */
  read: () => Promise<string>
  /** Asks a person; undefined when nobody is there to answer. */
  ask: ((question: string) => Promise<string>) | undefined
}

export function toJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
