import { quoted } from '../source/fault-list.ts'
import type { FieldMessage } from '../source/fields.ts'

// The patterns for branches, tags and paths of GitHub's "Filter pattern cheat sheet".

const maxLength = 500
const many = Number.POSITIVE_INFINITY

type Part =
  /** A character, how often: exactly once, or from `least` to `most` times. */
  | { kind: 'character'; fits: (character: string) => boolean; min: number; max: number }
  /** `**` with a slash at the start of a name: the two parts behind it, or nothing. */
  | { kind: 'folders' }

/** Checks a pattern. The caller handles a leading `!`. */
export function patternFault(pattern: string): FieldMessage | undefined {
  if (pattern.length > maxLength) {
    return [`A pattern is longer than ${maxLength} characters.`, 'Write a shorter pattern.']
  }
  if (pattern === '') return ['A pattern is empty.', 'Write a name, or "**" for all.']
  const parsed = parsePattern(pattern)
  if (Array.isArray(parsed)) return undefined
  return [`The pattern ${quoted(pattern)} ${parsed.fault}`, parsed.instead]
}

/** Linux, PATH_MAX: files with longer names cannot be checked out. */
const nameMaxLength = 4096

/** The number of matching steps left; below 0 the results are not valid. */
export type MatchBudget = { left: number }

/**
 * Compiles a pattern to a predicate for whole names. Takes steps proportional to the product of both lengths at most;
 * a longer name than any of a file exhausts the budget.
 */
export function compilePattern(pattern: string): (name: string, budget: MatchBudget) => boolean {
  const parts = parsePattern(pattern)
  if (!Array.isArray(parts)) return () => false
  return (name, budget) => {
    budget.left -= name.length > nameMaxLength ? Infinity : 1
    if (budget.left < 0) return false
    // In which step each place was reached last, so that it is followed once.
    const seen = new Uint32Array(parts.length + 1)
    let step = 1
    let positions = reached(parts, [0], seen, step)
    for (const character of name) {
      budget.left -= positions.length
      if (positions.length === 0 || budget.left < 0) return false
      const next: number[] = []
      for (const at of positions) {
        const part = parts[at]
        if (part?.kind !== 'character' || !part.fits(character)) continue
        next.push(at + 1)
        if (part.max === many) next.push(at)
      }
      step += 1
      positions = reached(parts, next, seen, step)
    }
    return positions.includes(parts.length)
  }
}

/** The states, and those reachable over parts that may match nothing; each once. */
function reached(parts: Part[], waiting: number[], seen: Uint32Array, step: number): number[] {
  const found: number[] = []
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    if (seen[at] === step) continue
    seen[at] = step
    found.push(at)
    const part = parts[at]
    if (part?.kind === 'folders') waiting.push(at + 1, at + 3)
    else if (part?.kind === 'character' && part.min === 0) waiting.push(at + 1)
  }
  return found
}

type PatternFault = { fault: string; instead: string }

function parsePattern(pattern: string): Part[] | PatternFault {
  const parts: Part[] = []
  let at = 0
  while (at < pattern.length) {
    const read = readStars(pattern, at) ?? readOne(pattern, at)
    if ('fault' in read) return read
    at = read.end
    const repeat = read.isRepeatable ? pattern[at] : undefined
    const times = repeat === '?' ? optional : repeat === '+' ? repeated : undefined
    parts.push(...read.parts.map((part) => ({ ...part, ...times })))
    if (times) at++
  }
  return parts
}

const optional = { min: 0, max: 1 }
const repeated = { min: 1, max: many }

type Read = { parts: Part[]; end: number; isRepeatable: boolean }

function readStars(pattern: string, at: number): Read | undefined {
  if (pattern[at] !== '*') return undefined
  if (pattern[at + 1] !== '*') {
    return {
      parts: [anyNumber((character) => character !== '/')],
      end: at + 1,
      isRepeatable: false,
    }
  }
  const startsName = at === 0 || pattern[at - 1] === '/'
  const anything = anyNumber(() => true)
  if (!startsName || pattern[at + 2] !== '/') {
    return { parts: [anything], end: at + 2, isRepeatable: false }
  }
  const parts: Part[] = [{ kind: 'folders' }, anything, once((character) => character === '/')]
  return { parts, end: at + 3, isRepeatable: false }
}

function readOne(pattern: string, at: number): Read | PatternFault {
  const first = pattern[at] ?? ''
  if (first === '?' || first === '+') {
    const instead = `Write "*" for any characters, or "\\${first}" for the character itself.`
    return { fault: `has "${first}" with nothing before it to repeat.`, instead }
  }
  if (first === '[') return readBrackets(pattern, at)
  const start = first === '\\' ? at + 1 : at
  const code = pattern.codePointAt(start)
  if (code === undefined) {
    return { fault: 'ends in "\\".', instead: 'Write "\\\\" for the character itself.' }
  }
  const literal = String.fromCodePoint(code)
  const parts = [once((character) => character === literal)]
  return { parts, end: start + literal.length, isRepeatable: true }
}

function readBrackets(pattern: string, at: number): Read | PatternFault {
  const [, inner = ''] =
    /^\[((?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9])+)\]/.exec(pattern.slice(at)) ?? []
  const ranges = [...inner.matchAll(/(.)(?:-(.))?/g)].map(([, from = '', to = from]) => ({
    from,
    to,
  }))
  if (ranges.length === 0 || ranges.some(({ from, to }) => from > to)) {
    const instead =
      'Write letters, digits and ranges, "[a-z0-9]", or "\\[" for the character itself.'
    return { fault: 'has an invalid character range.', instead }
  }
  const parts = [
    once((character) => ranges.some(({ from, to }) => character >= from && character <= to)),
  ]
  return { parts, end: at + inner.length + 2, isRepeatable: true }
}

function once(fits: (character: string) => boolean): Part {
  return { kind: 'character', fits, min: 1, max: 1 }
}

function anyNumber(fits: (character: string) => boolean): Part {
  return { kind: 'character', fits, min: 0, max: many }
}
