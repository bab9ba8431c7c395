import type { Db } from '#database/schema.ts'
import { invalid } from '#http/validation.ts'
import { deleteTokensOf } from '../tokens/token-store.ts'
import {
  deleteLogin,
  findLogin,
  type GroupChange,
  insertLogin,
  listLoginsOf,
  replaceGroups,
} from './login-store.ts'
import { newLogin } from './people.ts'

type Link = {
  username: string
  /** Undefined if the settings have no identity provider. */
  issuer: string | undefined
  /** Empty for none. */
  subject: string
  now: number
}

/**
 * Links a user with a person at the identity provider, in place of another. Returns the ids of the tokens that ended, and
 * the groups that the user has lost; undefined if nothing has changed. Throws `invalid_request`.
 */
export async function linkLogin(
  tx: Db,
  { username, issuer, subject, now }: Link,
): Promise<({ tokenIds: string[] } & GroupChange) | undefined> {
  if (issuer === undefined && subject !== '')
    throw refused('needs an identity provider, in SVC_OIDC_ISSUER.')
  const identity = issuer === undefined || subject === '' ? undefined : { issuer, subject }
  const known = identity && (await findLogin(tx, identity))
  if (known && known.username !== username)
    throw refused(`is linked with the user "${known.username}"; unlink that one first.`)
  const others = (await listLoginsOf(tx, [username])).filter(({ id }) => id !== known?.id)
  if (others.length === 0 && (known || !identity)) return undefined
  const tokenIds: string[] = []
  for (const { id } of others) {
    tokenIds.push(...(await deleteTokensOf(tx, { loginId: id })))
    await deleteLogin(tx, id)
  }
  const ended = { tokenIds, ...(await replaceGroups(tx, username, [])) }
  if (known || !identity) return ended
  if (await insertLogin(tx, newLogin({ username, ...identity }, now))) return ended
  throw refused('was linked by another request just now.')
}

function refused(detail: string) {
  return invalid([{ pointer: '/loginSubject', detail }])
}
