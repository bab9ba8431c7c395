import type { Migration } from './migration.ts'

// By what a server recognizes that it belongs to the service: the bucket that is marked with the id of the service, the
// id of the encryption key, and of each node that runs its data directory and the fingerprint of its SSH host key.
export const serviceIdentity: Migration = () => [
  'alter table instance add column bucket text',
  'alter table instance add column key_id text',
  "alter table nodes add column place text not null default ''",
  "alter table nodes add column host_key text not null default ''",
]
