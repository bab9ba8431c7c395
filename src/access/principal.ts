import type { Permission } from './permissions.ts'

/** Who is asking: a token that was valid when it was read. */
export type Principal = {
  tokenId: string
  username: string
  permissions: ReadonlySet<Permission>
}
