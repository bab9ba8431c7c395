import { invalid, ofQuery } from '#http/validation.ts'

/** The number of a line that the address of a page has; undefined without one. Throws `invalid_request`. */
export function lineOf(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name) ?? ''
  if (text === '') return undefined
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw invalid([ofQuery(name, 'must be the number of a line, from 1.')])
}

/** One of some words that the address of a page has; undefined without one. Throws `invalid_request`. */
export function choiceOf<T extends string>(
  query: URLSearchParams,
  name: string,
  choices: readonly T[],
): T | undefined {
  const text = query.get(name) ?? ''
  const chosen = choices.find((choice) => choice === text)
  if (text === '' || chosen !== undefined) return chosen
  throw invalid([ofQuery(name, `must be one of ${choices.join(', ')}.`)])
}
