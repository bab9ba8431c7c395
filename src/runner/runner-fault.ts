/** Why a runner cannot do its work; the message is one line that says what to do. */
export class RunnerError extends Error {
  override readonly name = 'RunnerFault'
}
