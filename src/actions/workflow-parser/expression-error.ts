import type { SourcePosition } from './workflow.ts'

/** An expression that cannot be evaluated, with its position. The message is for users and never contains a value. */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError'
  readonly position: SourcePosition

  constructor(position: SourcePosition, message: string, options?: ErrorOptions) {
    super(message, options)
    this.position = position
  }
}
