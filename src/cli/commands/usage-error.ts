/** Invalid arguments on the command line; the message says what is valid. The exit code is 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
