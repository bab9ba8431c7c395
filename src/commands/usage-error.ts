/** Something that was asked for on the command line cannot be; the message says what could. The exit code is 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
