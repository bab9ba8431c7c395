import { createHmac, randomBytes } from 'node:crypto'
import { printable } from '#base/format.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { PackedObject } from '#git/objects/pack.ts'
import type { Git } from '#git/process/git-process.ts'
import { maxPushOptions } from '#git/protocol/push-commands.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import { insertLeakGuardKey, readLeakGuardKey } from './leak-guard-store.ts'
import { type LocatedCredential, locateCredentials } from './locate.ts'
import { scanObjects } from './scan-objects.ts'

/** Refuses pushes that contain credentials. */
export type LeakGuard = {
  /**
   * Scans the objects of a push in quarantine. Throws `credentials_leaked` unless all findings are allowed by their ids;
   * returns those, and warnings for the client's terminal.
   */
  check: (push: GuardedPush) => Promise<GuardResult>
}

/** The outcome for a push that is not refused. */
export type GuardResult = {
  allowed: AllowedLeak[]
  /** Lines for the client's terminal. */
  warnings: string[]
  /** Whether it started git processes, so that rights may have changed since. */
  wasSlow: boolean
}

/** A push whose files are looked at while they are in quarantine. */
export type QuarantinedPush = {
  repository: { id: string; name: string; path: string }
  updates: readonly RefUpdate[]
  /** Its objects, unless they are many. */
  objects: readonly PackedObject[] | undefined
  /** Sees what the repository had before the push. */
  git: Git
  /** Sees that, and the objects of the push. */
  scopedGit: Git
  /** Sees only the objects of the push. */
  quarantinedGit: Git
}

type GuardedPush = QuarantinedPush & {
  /** Ids of findings that may be pushed. */
  allow: readonly string[]
}

/** A finding as an event names it: never with the credential. */
export type AllowedLeak = { id: string; kind: string; commit: string; path: string; line: number }

type Dependencies = {
  db: Database
  /** Whether a token of this service is valid. */
  isLive: (token: string) => Promise<boolean>
}

const keyBytes = 32
const idLength = 12

export function createLeakGuard({ db, isLive }: Dependencies): LeakGuard {
  let ownKey: string | undefined

  async function key(): Promise<string> {
    ownKey ??= await readLeakGuardKey(db)
    if (ownKey !== undefined) return ownKey
    await insertLeakGuardKey(db, randomBytes(keyBytes).toString('hex'))
    ownKey = await readLeakGuardKey(db)
    if (ownKey === undefined) throw new Error('The key of the leak guard is gone.')
    return ownKey
  }

  /** Stable when the push is repeated; without the key, no guess of the credential can be checked with it. */
  async function toFindings(
    repositoryId: string,
    located: readonly LocatedCredential[],
  ): Promise<LeakFinding[]> {
    const findings = new Map<string, LeakFinding>()
    for (const credential of located) {
      const { kind, secret, path } = credential
      const id = createHmac('sha256', Buffer.from(await key(), 'hex'))
        .update(JSON.stringify([repositoryId, path, kind, secret]))
        .digest('hex')
        .slice(0, idLength)
      if (findings.has(id)) continue
      const isLiveToken = kind === 'svc token' ? await isLive(secret) : undefined
      findings.set(id, { ...credential, id, isLive: isLiveToken })
    }
    return [...findings.values()]
  }

  return {
    async check({ repository, updates, allow, git, scopedGit, ...pushed }) {
      const { id, path } = repository
      const { leaky, gaps, wasSlow } = await scanObjects(path, pushed)
      const located =
        leaky.length > 0 ? await locateCredentials({ git, scopedGit }, path, updates, leaky) : []
      const findings = await toFindings(id, located)
      const refused = findings.filter((finding) => !allow.includes(finding.id))
      if (refused.length > 0) {
        const allowed = findings.filter((finding) => !refused.includes(finding))
        throw new Problem('credentials_leaked', describeLeaks(refused, allowed))
      }
      const unused = allow.filter((allowed) => !findings.some((finding) => finding.id === allowed))
      return {
        allowed: findings.map(toAllowed),
        warnings: [...gaps, ...unused.map(describeUnused)],
        wasSlow: wasSlow || leaky.length > 0,
      }
    },
  }
}

function toAllowed({ id, kind, object, path, line }: LeakFinding): AllowedLeak {
  return { id, kind, commit: object, path, line }
}

function describeUnused(id: string): string {
  return `leak.allow=${id} has no effect: this push has no finding with this id.`
}

type LeakFinding = LocatedCredential & {
  id: string
  /** Whether a token of this service is valid; undefined for other credentials. */
  isLive: boolean | undefined
}

const maxShown = 50
const pathMaxLength = 200
const shownIdLength = 12

/** Describes findings for the client's terminal: where each is, and how to push all the same. Without the credentials. */
function describeLeaks(findings: readonly LeakFinding[], allowed: readonly LeakFinding[]): string {
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
    ...(allowed.length + findings.length > maxPushOptions
      ? [
          `If they are no secrets, push fewer commits at a time: a push can allow at most ${maxPushOptions} credentials.`,
          'Or switch the leak guard of the repository off.',
        ]
      : ['If they are no secrets, push with:', `  git push ${options.join(' ')}`]),
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
