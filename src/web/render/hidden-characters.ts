// Control characters other than tabs, and those that change the direction of text: CVE-2021-42574.
const runs =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]+/g
const special =
  /[&<>"'\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/

/** The most runs that a short text, such as a name or a line, shows by their code points. */
const maxRunsOfText = 20
/** The same of a whole file. */
export const maxRunsOfFile = 5000
const maxListed = 4

/** Whether a text has characters that HTML must escape or show. */
export function isSpecial(text: string): boolean {
  return special.test(text)
}

/**
 * Shows the hidden characters in HTML whose tags have none: each of the first runs by its first code points. Those of all
 * further runs become U+FFFD, so that the HTML stays in proportion to the text.
 */
export function showHidden(html: string, maxRuns = maxRunsOfText): string {
  let shown = ''
  let from = 0
  let count = 0
  for (const { 0: run, index } of html.matchAll(runs)) {
    count += 1
    if (count > maxRuns) break
    shown += `${html.slice(from, index)}<span class="unseen">${describeRun(run)}</span>`
    from = index + run.length
  }
  return count === 0 ? html : shown + replaceHidden(html.slice(from))
}

/** Shows the hidden characters of escaped text where no element can: in attributes for people, and in titles. */
export function describeHidden(escaped: string): string {
  let shown = ''
  for (const [part, isHidden] of splitHidden(escaped)) shown += isHidden ? `[${part}]` : part
  return shown
}

/** Splits text into visible parts and, for each run of hidden characters, its description: `U+200B`. */
export function* splitHidden(text: string): Generator<[text: string, isHidden: boolean]> {
  let from = 0
  let count = 0
  const given = text.toWellFormed()
  for (const { 0: run, index } of given.matchAll(runs)) {
    count += 1
    if (count > maxRunsOfText) break
    if (index > from) yield [given.slice(from, index), false]
    yield [describeRun(run), true]
    from = index + run.length
  }
  if (from < given.length) yield [replaceHidden(given.slice(from)), false]
}

function replaceHidden(text: string): string {
  return text.replace(runs, (run) => '\ufffd'.repeat(run.length))
}

/** Refers to hidden characters by number, so that an attribute keeps its value. HTML has no reference for U+0080 to U+009F. */
export function referToHidden(text: string): string {
  return text.replace(runs, (run) => {
    let referred = ''
    for (const character of run) {
      const code = character.charCodeAt(0)
      referred += code >= 0x80 && code <= 0x9f ? character : `&#x${code.toString(16)};`
    }
    return referred
  })
}

/** Whether a text has more runs of hidden characters than are shown by their code points. */
export function hasMoreRuns(text: string, maxRuns: number): boolean {
  let count = 0
  for (const _ of text.matchAll(runs)) {
    count += 1
    if (count > maxRuns) return true
  }
  return false
}

/** The number of characters that a description stands for. */
export function lengthOfRun(description: string): number {
  const [, more = '0'] = / and (\d+) more$/.exec(description) ?? []
  return description.split('U+').length - 1 + Number(more)
}

function describeRun(run: string): string {
  const listed: string[] = []
  for (const character of run.slice(0, maxListed)) listed.push(toCodePoint(character))
  const more = run.length - listed.length
  return more > 0 ? `${listed.join(' ')} and ${more} more` : listed.join(' ')
}

function toCodePoint(character: string): string {
  return `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`
}
