import type { Migration } from './migration.ts'

// Existing tokens have no limits.
export const tokenLimits: Migration = () => [
  'alter table tokens add column repositories text',
  'alter table tokens add column refs text',
  'alter table tokens add column delegated_from text',
  'alter table tokens add column delegation_root text',
  'create index tokens_by_delegation on tokens (delegated_from)',
  'create index tokens_by_delegation_root on tokens (delegation_root)',
]
