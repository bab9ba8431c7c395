import type { Permission } from './permissions.ts'

/** Who is asking: a token or an SSH key that was valid when it was read, or whoever needs neither. */
export type Principal = {
  /**
   * `local` is whoever runs commands on the server itself, `runner` the runner beside it, and `run` whoever
   * executes a run, for as long as it lasts.
   */
  kind: 'token' | 'ssh-key' | 'anonymous' | 'local' | 'runner' | 'run'
  /** The id of the token, the key or the run; opaque otherwise. */
  id: string
  username: string
  /** Of whoever executes a run: the hash of the token, which is another one each time the run is given away. */
  claim?: string
  permissions: ReadonlySet<Permission>
  /** When the token or the key expires; null, or absent, for never. */
  expiresAt?: number | null
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
