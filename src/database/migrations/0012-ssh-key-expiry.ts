import type { Migration } from './migration.ts'

// Existing keys never expire.
export const sshKeyExpiry: Migration = ({ milliseconds }) => [
  `alter table ssh_keys add column expires_at ${milliseconds}`,
]
