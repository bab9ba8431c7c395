import type { SourcePosition } from './workflow.ts'

/** An expression that has no value, in a sentence for people. It tells where it stands, and never a value: that may be secret. */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionFault'
  readonly place: SourcePosition

  constructor(place: SourcePosition, message: string, options?: ErrorOptions) {
    super(message, options)
    this.place = place
  }
}
