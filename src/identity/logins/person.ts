/** A person as the identity provider describes them. */
export type Person = {
  /** The `sub` of the issuer, which never changes. */
  subject: string
  /** Undefined if the provider names none. */
  username: string | undefined
  displayName: string
  /** Empty if there is none, or it was not verified. */
  email: string
  groups: string[]
}

export type ClaimNames = { usernameClaim: string; groupsClaim: string }

const maxGroups = 1000
const groupMaxLength = 255
const nameMaxLength = 100
const controls = /[\u0000-\u001f\u007f-\u009f]/

/** Reads the claims of an ID token and of the UserInfo endpoint: OpenID Connect Core 1.0, section 5.1. */
export function readPerson(
  claims: Readonly<Record<string, unknown>> & { sub: string },
  { usernameClaim, groupsClaim }: ClaimNames,
): Person {
  const isUnverified = claims.email_verified === false || claims.email_verified === 'false'
  const username = isUnverified && usernameClaim === 'email' ? undefined : claims[usernameClaim]
  return {
    subject: claims.sub,
    username: typeof username === 'string' ? username : undefined,
    displayName: toDisplayName(claims.name),
    email: isUnverified ? '' : toEmail(claims.email),
    groups: toGroups(claims[groupsClaim]),
  }
}

function toDisplayName(name: unknown): string {
  if (typeof name !== 'string') return ''
  const plain = [...name].filter((character) => !controls.test(character))
  return plain.slice(0, nameMaxLength).join('').trim()
}

function toEmail(email: unknown): string {
  const isAddress =
    typeof email === 'string' && email.length <= 254 && /^[^\s@]+@[^\s@]+$/.test(email)
  return isAddress && !controls.test(email) ? email : ''
}

/** Groups as a list, or a single one. */
function toGroups(value: unknown): string[] {
  const names = (Array.isArray(value) ? value : [value]).filter(
    (name) =>
      typeof name === 'string' &&
      name !== '' &&
      name.length <= groupMaxLength &&
      !controls.test(name),
  )
  return [...new Set<string>(names)].slice(0, maxGroups).sort()
}

/** The settings about who may log in. An unset list allows all people, and makes none an admin. */
export type GroupRules = {
  allowedGroups: readonly string[] | undefined
  adminGroups: readonly string[] | undefined
}

/** What the groups of a person allow. Admins may log in, also without another group. */
export function standingOf(
  { groups }: Pick<Person, 'groups'>,
  { allowedGroups, adminGroups = [] }: GroupRules,
): { isAllowed: boolean; isAdmin: boolean } {
  const isAdmin = groups.some((name) => adminGroups.includes(name))
  const isAllowed =
    isAdmin || allowedGroups === undefined || groups.some((name) => allowedGroups.includes(name))
  return { isAllowed, isAdmin }
}
