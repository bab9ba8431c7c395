import { isIP } from 'node:net'
import { type Static, Type } from 'typebox'
import type { Principal } from '#access/principal.ts'
import type { FieldError } from '#base/problem.ts'
import { closed } from '#base/schema-options.ts'
import { type Identity, withoutCrud } from '#git/objects/new-objects.ts'
import { named } from '#http/named-schemas.ts'
import { invalid } from '#http/validation.ts'

const date = (description: string) =>
  Type.String({ description, maxLength: 40, examples: ['2026-11-24T12:30:00+01:00'] })

export const GivenDate = date(
  'The time of the committer, and of the author unless it has its own, in ISO 8601 with an offset; now by default. ' +
    'With it, the same request makes a commit with the same id',
)

export const GivenAuthor = Type.Object(
  {
    name: Type.String({ description: 'Name of the author', minLength: 1, maxLength: 200 }),
    email: Type.String({ description: 'Email address', minLength: 1, maxLength: 320 }),
    date: Type.Optional(date('When it was written, in ISO 8601 with an offset')),
  },
  { ...closed, description: 'The author, if it is not the user of the token' },
)

/** An author or committer as the API shows it. */
export const CommitPerson = named(
  'CommitPerson',
  Type.Object({
    name: Type.String({ description: 'Name' }),
    email: Type.String({ description: 'Email address' }),
    date: Type.String({ description: 'Time in ISO 8601, with the offset of the person' }),
  }),
)

type GivenIdentities = { author?: Static<typeof GivenAuthor>; date?: string }

export type CommitIdentities = { author: Identity; committer: Identity }

/** The author and the committer of a commit through the API. Throws `invalid_request`. */
export function identitiesOf(
  { username }: Pick<Principal, 'username'>,
  { author, date: given }: GivenIdentities,
  { now, baseUrl }: { now: number; baseUrl: string },
): CommitIdentities {
  const errors: FieldError[] = []
  const timeOf = (text: string | undefined, pointer: string) => {
    const time = text === undefined ? toTimeOf(now) : parseDate(text)
    if (!time) errors.push({ pointer, detail: 'must be a time such as 2026-11-24T12:30:00+01:00.' })
    return time ?? toTimeOf(now)
  }
  const user = withoutCrud(username)
  const committer = { name: user, email: emailOf(user, baseUrl), ...timeOf(given, '/date') }
  if (!author) {
    if (errors.length > 0) throw invalid(errors)
    return { author: committer, committer }
  }
  const time = author.date === undefined ? undefined : timeOf(author.date, '/author/date')
  const { seconds, offset } = time ?? committer
  const cleanOf = (field: 'name' | 'email') => {
    const text = withoutCrud(author[field])
    const isClean = text !== '' && text.isWellFormed() && !/[\x00-\x1f\x7f<>]/.test(text)
    const detail = 'must have a character, and no control characters, `<` or `>`.'
    if (!isClean) errors.push({ pointer: `/author/${field}`, detail })
    return text
  }
  const identity = { name: cleanOf('name'), email: cleanOf('email'), seconds, offset }
  if (errors.length > 0) throw invalid(errors)
  return { author: identity, committer }
}

/** Formats an identity for a response. */
export function toCommitPerson({
  name,
  email,
  seconds,
  offset,
}: Identity): Static<typeof CommitPerson> {
  const sign = offset.startsWith('-') ? -1 : 1
  const minutes = sign * (Number(offset.slice(1, 3)) * 60 + Number(offset.slice(3)))
  const local = new Date((seconds + minutes * 60) * 1000).toISOString().slice(0, 19)
  const zone = minutes === 0 ? 'Z' : `${offset.slice(0, 3)}:${offset.slice(3)}`
  return { name, email, date: `${local}${zone}` }
}

function emailOf(username: string, baseUrl: string): string {
  if (username.includes('@')) return username
  const { hostname } = new URL(baseUrl)
  const host = isIP(hostname.replace(/^\[|\]$/g, '')) === 0 ? hostname : 'localhost'
  return `${username}@users.noreply.${host}`
}

type Time = Pick<Identity, 'seconds' | 'offset'>

function toTimeOf(milliseconds: number): Time {
  return { seconds: Math.floor(milliseconds / 1000), offset: '+0000' }
}

/** Parses a time with an offset, which RFC 3339 defines; undefined for anything else, and for what Git cannot store. */
function parseDate(text: string): Time | undefined {
  const [, zone = ''] =
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/.exec(text) ?? []
  const seconds = Math.floor(Date.parse(text) / 1000)
  const offset = zone === 'Z' ? '+0000' : zone.replace(':', '')
  const isPossible = seconds >= 0 && zone !== '' && Number(offset.slice(1)) <= 1400
  return isPossible ? { seconds, offset } : undefined
}
