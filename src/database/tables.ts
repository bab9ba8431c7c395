/** A table by its name in SQL, with the columns of its primary key. */
export type Table = { name: string; key: readonly [string, ...string[]] }

/** Every table except `schema_version`, referenced tables first. Backups copy the tables in this order. */
export const tables: readonly Table[] = [
  { name: 'instance', key: ['id'] },
  { name: 'marks', key: ['name'] },
  { name: 'tokens', key: ['id'] },
  { name: 'ssh_keys', key: ['id'] },
  { name: 'repositories', key: ['id'] },
  { name: 'imports', key: ['repository_id'] },
  { name: 'maintenance', key: ['repository_id'] },
  { name: 'protections', key: ['repository_id', 'branch'] },
  { name: 'collaborators', key: ['repository_id', 'username'] },
  { name: 'secrets', key: ['id'] },
  { name: 'runs', key: ['id'] },
  { name: 'run_numbers', key: ['repository_id'] },
  { name: 'run_groups', key: ['run_id', 'name'] },
  { name: 'run_attempts', key: ['run_id', 'attempt'] },
  { name: 'run_jobs', key: ['run_id', 'attempt', 'job'] },
  { name: 'run_steps', key: ['run_id', 'attempt', 'step'] },
  { name: 'run_logs', key: ['run_id', 'attempt', 'start'] },
  { name: 'schedules', key: ['repository_id', 'file', 'cron', 'timezone'] },
  { name: 'webhooks', key: ['id'] },
  { name: 'webhook_secrets', key: ['id'] },
  { name: 'deliveries', key: ['id'] },
  { name: 'delivery_bodies', key: ['delivery_id'] },
  { name: 'delivery_attempts', key: ['delivery_id', 'attempt'] },
  { name: 'pushes', key: ['id'] },
  { name: 'events', key: ['seq'] },
]
