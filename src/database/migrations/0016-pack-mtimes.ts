import type { Migration } from './migration.ts'

// Maintenance of a shared store keeps the times of unreachable objects with their packs.
export const packMtimes: Migration = ({ sequence, bytes }) => [
  `alter table packs add column mtimes_bytes ${sequence}`,
  'alter table packs add column mtimes_sha256 text',
  `alter table packs add column mtimes ${bytes}`,
]
