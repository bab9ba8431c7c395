import type { Permission } from './permissions.ts'

/** Who is asking: a token or an SSH key that was valid when it was read, or whoever needs neither. */
export type Principal = {
  /** `local` is whoever runs commands on the server itself. */
  kind: 'token' | 'ssh-key' | 'anonymous' | 'local'
  /** The id of the token or the key; opaque otherwise. */
  id: string
  username: string
  permissions: ReadonlySet<Permission>
}

/**
 * Whoever reads without a key: every repository, and no more than that. No username is empty, so this
 * one owns nothing and collaborates nowhere. Told apart by address, for limits.
 */
export function anonymousFrom(address: string): Principal {
  return {
    kind: 'anonymous',
    id: `anonymous from ${address}`,
    username: '',
    permissions: new Set(['repo:read']),
  }
}
