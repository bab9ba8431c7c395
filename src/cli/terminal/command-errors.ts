/** The exit codes of client commands, which `docs/command-line.md` documents. */
export const clientExitCodes = { failure: 1, usage: 2, unreachable: 3, unauthorized: 4 } as const

/** A client command that failed; the message is one sentence without control characters. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: number

  constructor(
    reason: Exclude<keyof typeof clientExitCodes, 'usage'>,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
    this.exitCode = clientExitCodes[reason]
  }
}

/** Invalid arguments on the command line; the message says what is valid. The exit code is 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
