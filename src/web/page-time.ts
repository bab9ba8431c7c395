import type { Html } from './render/html.ts'
import { age, ageEnd } from './time.ts'

/** The time of a page, which knows until when what the page derives from it is right. */
export class PageTime {
  readonly at: number
  #validUntil = Number.POSITIVE_INFINITY

  constructor(at: number) {
    this.at = at
  }

  get validUntil(): number {
    return this.#validUntil
  }

  age(at: number): Html {
    this.#limit(ageEnd(at, this.at))
    return age(at, this.at)
  }

  /** Returns the index of the first limit that is longer than the age of a time. */
  stepOf(at: number, limitsMs: readonly number[]): number {
    const index = limitsMs.findIndex((limit) => this.at - at < limit)
    this.#limit(at + (limitsMs[index] ?? Number.POSITIVE_INFINITY))
    return index
  }

  #limit(until: number): void {
    this.#validUntil = Math.min(this.#validUntil, until)
  }
}
