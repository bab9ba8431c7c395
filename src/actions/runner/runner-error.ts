/** Stops a runner. The message is one line that says what to do. */
export class RunnerError extends Error {
  override readonly name = 'RunnerError'
}
