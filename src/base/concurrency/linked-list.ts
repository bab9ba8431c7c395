/** A value's place in a list. */
export type Link<T> = { value: T; before: Link<T> | undefined; after: Link<T> | undefined }

/** A doubly linked list with removal in constant time. A Map or a Set slows down when it is used as a queue. */
export class LinkedList<T> {
  #first: Link<T> | undefined
  #last: Link<T> | undefined

  get first(): T | undefined {
    return this.#first?.value
  }

  get last(): T | undefined {
    return this.#last?.value
  }

  isEmpty(): boolean {
    return this.#first === undefined
  }

  append(value: T): Link<T> {
    const link: Link<T> = { value, before: this.#last, after: undefined }
    if (this.#last) this.#last.after = link
    else this.#first = link
    this.#last = link
    return link
  }

  /** Removes a link that `append` of this list returned; call it once per link. */
  remove({ before, after }: Link<T>): void {
    if (before) before.after = after
    else this.#first = after
    if (after) after.before = before
    else this.#last = before
  }
}
