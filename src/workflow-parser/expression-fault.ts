import type { Place } from './workflow.ts'

/** An expression that has no value, in a sentence for people. It tells where it stands, and never a value: that may be secret. */
export class ExpressionFault extends Error {
  override readonly name = 'ExpressionFault'
  readonly place: Place

  constructor(place: Place, message: string, options?: ErrorOptions) {
    super(message, options)
    this.place = place
  }
}
