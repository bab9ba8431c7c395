import type { Migration } from './migration.ts'

// `run_options` is a JSON object: what a push says about its runs. `awaited_by` is the server on which a push waits for a
// run, and `awaited_pack` with a shared store the pack that has the commit until then.
export const pushRuns: Migration = () => [
  'alter table pushes add column run_options text',
  'alter table runs add column awaited_by text',
  'alter table runs add column awaited_pack text',
]
