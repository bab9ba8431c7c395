import type { Principal } from '../access/principal.ts'
import type { Actor } from '../events/events.ts'

/** Whoever runs commands on the server itself may do everything. */
export const localPrincipal: Principal = {
  tokenId: 'local',
  username: 'admin',
  permissions: new Set(['admin']),
}

export const localActor: Actor = { id: 'local', username: 'admin' }
