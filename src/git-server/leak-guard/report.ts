import { printable } from '#base/format.ts'
import type { LocatedCredential } from './locate.ts'

export type LeakFinding = LocatedCredential & {
  id: string
  /** Whether a token of this service is valid; undefined for other credentials. */
  isLive: boolean | undefined
}

const maxShown = 50
const pathMaxLength = 200
const shownIdLength = 12

/** Describes findings for the client's terminal: where each is, and how to push all the same. Without the credentials. */
export function describeLeaks(
  findings: readonly LeakFinding[],
  allowed: readonly LeakFinding[],
): string {
  const shown = findings.slice(0, maxShown)
  const more = findings.length - shown.length
  const options = [...allowed, ...shown].map(({ id }) => `-o leak.allow=${id}`)
  return [
    `This push contains ${count(findings.length)}. Nothing was changed.`,
    '',
    ...shown.flatMap(describe),
    ...(more > 0 ? [`  and ${more} more.`] : []),
    '',
    'Remove them from every new commit, for example with "git rebase -i", and revoke those that are in use.',
    'If they are no secrets, push with:',
    `  git push ${options.join(' ')}`,
  ].join('\n')
}

function count(findings: number): string {
  return findings === 1 ? 'a credential' : `${findings} credentials`
}

function describe(finding: LeakFinding): string[] {
  const { id, kind, isLive } = finding
  const state = { true: ', which is live', false: ', which is not live', undefined: '' }[
    `${isLive}`
  ]
  return [`  ${kind}${state} (finding ${id})`, `    ${placeOf(finding)}`]
}

function placeOf({ in: holder, path, line, object, ref }: LeakFinding): string {
  const id = object.slice(0, shownIdLength)
  const of = ref === '' ? '' : ` of ${shorten(printable(ref))}`
  if (holder === 'file') return `${shorten(printable(path))}:${line} in commit ${id}${of}`
  if (holder === 'object') return `line ${line} of object ${id}${of}, which no commit has`
  return `line ${line} of the ${holder === 'tag message' ? 'tag' : 'commit'} ${id}${of}`
}

function shorten(text: string): string {
  const characters = Array.from(text)
  if (characters.length <= pathMaxLength) return text
  return `${characters.slice(0, pathMaxLength).join('')}…`
}
