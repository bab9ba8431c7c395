import { type Link, LinkedList } from './linked-list.ts'

/** A priority queue with movable values. Levels are whole numbers from 0; values of one level are in insertion order. */
export class Levels<T> {
  readonly #lists = new Map<number, LinkedList<T>>()
  readonly #places = new Map<T, { level: number; link: Link<T> }>()
  // Bounds of the levels in use, narrowed lazily by the getters.
  #lowest = 0
  #highest = 0

  /** Moves a value to the end of a level, or removes it when the level is undefined. A value already at the level stays. */
  put(value: T, level: number | undefined): void {
    const place = this.#places.get(value)
    if (place?.level === level) return
    if (place) this.#lists.get(place.level)?.remove(place.link)
    if (place && this.#lists.get(place.level)?.isEmpty()) this.#lists.delete(place.level)
    if (level === undefined) {
      this.#places.delete(value)
      return
    }
    const list = this.#lists.get(level) ?? new LinkedList<T>()
    this.#lists.set(level, list)
    this.#places.set(value, { level, link: list.append(value) })
    this.#lowest = Math.min(this.#lowest, level)
    this.#highest = Math.max(this.#highest, level)
  }

  /** The first value of the lowest level. */
  lowest(): T | undefined {
    if (this.#lists.size === 0) return undefined
    while (!this.#lists.has(this.#lowest)) this.#lowest += 1
    return this.#lists.get(this.#lowest)?.first
  }

  /** The first value of the highest level. */
  highest(): T | undefined {
    if (this.#lists.size === 0) return undefined
    while (!this.#lists.has(this.#highest)) this.#highest -= 1
    return this.#lists.get(this.#highest)?.first
  }
}
