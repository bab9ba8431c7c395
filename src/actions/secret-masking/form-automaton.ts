import { type Form, headLength } from './forms.ts'

/** The longest beginning of a form with which the text read so far ends. */
export type FormState = {
  /** The length of that beginning; 0 for none. */
  depth: number
  /** The length of the longest form that ends here, or 0. */
  longest: number
  /** The state of the longest proper suffix; undefined for the root. */
  suffix: FormState | undefined
  /** The forms that begin so: a range of the sorted forms. */
  first: number
  end: number
  /** The first state behind this one, and its byte; most states have no other. */
  byte: number
  next: FormState | undefined
  others: Map<number, FormState> | undefined
}

/** The bytes of a form, as Latin-1: all of them, or its head, with `whole` to create them. */
type FormBytes = { bytes: string; whole: (() => string) | undefined }

/** No log reaches this many, unless most of it is secret. Some 60 MB. */
const maxStates = 500_000

/**
 * The automaton of Aho and Corasick: finds all forms in a text in time linear in the text, even for many forms that begin
 * alike or within each other. Its states are created when a text first reaches them, and long forms with their states.
 */
export class FormAutomaton {
  readonly root: FormState
  readonly #forms: FormBytes[]
  #states = 0

  constructor(forms: readonly FormBytes[]) {
    this.#forms = sorted(forms)
    this.root = newState(0, 0, forms.length)
  }

  get forms(): readonly FormBytes[] {
    return this.#forms
  }

  /** The state after the next byte; undefined when there are too many states to know. */
  step(state: FormState, byte: number): FormState | undefined {
    const after = state.byte === byte ? state.next : state.others?.get(byte)
    if (after !== undefined) return after
    // Before any is created: one without its suffix would miss forms that end within others.
    if (this.#states > maxStates) return undefined
    const created: FormState[] = []
    let suffix = this.root
    for (let from: FormState | undefined = state; from; from = from.suffix) {
      const known = from.byte === byte ? from.next : from.others?.get(byte)
      if (known !== undefined) {
        suffix = known
        break
      }
      const next = this.#create(from, byte)
      if (next === undefined) continue
      created.push(next)
    }
    for (const next of created.reverse()) {
      next.suffix = suffix
      if (next.longest === 0) next.longest = suffix.longest
      suffix = next
    }
    return suffix
  }

  /** Creates the state behind a byte, without its suffix; undefined when no form continues so. */
  #create(from: FormState, byte: number): FormState | undefined {
    const { depth } = from
    const first = this.#search(from, byte)
    if (first === from.end || this.#byteAt(first, depth) !== byte) return undefined
    const end = this.#search(from, byte + 1)
    const next = newState(depth + 1, first, end)
    if (next.depth === headLength) this.#completeForms(next)
    if (this.#forms[first]?.bytes.length === next.depth) next.longest = next.depth
    if (from.next === undefined) {
      from.byte = byte
      from.next = next
    } else {
      from.others ??= new Map()
      from.others.set(byte, next)
    }
    this.#states++
    return next
  }

  /** The first form of a state that continues with at least this byte. */
  #search({ depth, first, end }: FormState, byte: number): number {
    let [low, high] = [first, end]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#byteAt(middle, depth) < byte) low = middle + 1
      else high = middle
    }
    return low
  }

  /** -1 at the end of a form. */
  #byteAt(form: number, index: number): number {
    const { bytes = '' } = this.#forms[form] ?? {}
    return index < bytes.length ? bytes.charCodeAt(index) : -1
  }

  /** Creates what follows the heads of long forms. */
  #completeForms({ first, end }: FormState): void {
    const forms = this.#forms.slice(first, end)
    if (forms.every(({ whole }) => whole === undefined)) return
    const completed = forms.map(({ bytes, whole }) => ({
      bytes: whole?.() ?? bytes,
      whole: undefined,
    }))
    for (const [index, form] of sorted(completed).entries()) this.#forms[first + index] = form
  }
}

export function toFormBytes({ head, bytes }: Form): FormBytes {
  return { bytes: head.toString('latin1'), whole: bytes && (() => bytes().toString('latin1')) }
}

function sorted(forms: readonly FormBytes[]): FormBytes[] {
  return forms.toSorted((a, b) => (a.bytes < b.bytes ? -1 : a.bytes > b.bytes ? 1 : 0))
}

function newState(depth: number, first: number, end: number): FormState {
  return {
    ...{ depth, longest: 0, suffix: undefined, first, end },
    ...{ byte: -1, next: undefined, others: undefined },
  }
}
