import type { Principal } from '../access/principal.ts'

/** Whoever runs commands on the server itself may do everything. */
export const localPrincipal: Principal = {
  kind: 'local',
  id: 'local',
  username: 'admin',
  permissions: new Set(['admin']),
}
