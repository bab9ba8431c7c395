import type { Principal } from '#access/principal.ts'

/** The principal of commands on the data directory: it has every permission. */
export const localPrincipal: Principal = {
  kind: 'local',
  id: 'local',
  username: 'admin',
  permissions: new Set(['admin']),
}
