/** A table by its name in SQL. */
export type Table = {
  name: string
  /** The columns of its primary key. */
  key: readonly [string, ...string[]]
  /** The folder of `src/` whose stores write it. */
  owner: string
  /** Other folders whose stores read it. */
  readers?: readonly string[]
}

/**
 * Every table except `schema_version`, referenced tables first. Backups copy the tables in this order. Two tables have
 * another writer: `tokens` has a row of its own in `marks`, and a rotation of keys by `secrets` reseals `webhook_secrets`.
 */
export const tables: readonly Table[] = [
  { name: 'instance', key: ['id'], owner: 'repositories' },
  { name: 'marks', key: ['name'], owner: 'events' },
  { name: 'tokens', key: ['id'], owner: 'tokens' },
  { name: 'ssh_keys', key: ['id'], owner: 'ssh-keys' },
  {
    name: 'repositories',
    key: ['id'],
    owner: 'repositories',
    readers: ['doctor', 'event-log', 'secrets', 'webhooks'],
  },
  { name: 'imports', key: ['repository_id'], owner: 'repositories' },
  { name: 'maintenance', key: ['repository_id'], owner: 'maintenance', readers: ['repositories'] },
  { name: 'protections', key: ['repository_id', 'branch'], owner: 'repositories' },
  {
    name: 'collaborators',
    key: ['repository_id', 'username'],
    owner: 'repositories',
    readers: ['event-log'],
  },
  { name: 'secrets', key: ['id'], owner: 'secrets' },
  { name: 'runs', key: ['id'], owner: 'workflows' },
  { name: 'run_numbers', key: ['repository_id'], owner: 'workflows' },
  { name: 'run_groups', key: ['run_id', 'name'], owner: 'workflows' },
  { name: 'run_attempts', key: ['run_id', 'attempt'], owner: 'workflows' },
  { name: 'run_jobs', key: ['run_id', 'attempt', 'job'], owner: 'workflows' },
  { name: 'run_steps', key: ['run_id', 'attempt', 'step'], owner: 'workflows' },
  { name: 'run_logs', key: ['run_id', 'attempt', 'start'], owner: 'workflows' },
  { name: 'schedules', key: ['repository_id', 'file', 'cron', 'timezone'], owner: 'workflows' },
  { name: 'webhooks', key: ['id'], owner: 'webhooks', readers: ['doctor', 'metrics'] },
  { name: 'webhook_secrets', key: ['id'], owner: 'webhooks', readers: ['secrets'] },
  { name: 'deliveries', key: ['id'], owner: 'webhooks', readers: ['metrics'] },
  { name: 'delivery_bodies', key: ['delivery_id'], owner: 'webhooks' },
  { name: 'delivery_attempts', key: ['delivery_id', 'attempt'], owner: 'webhooks' },
  { name: 'pushes', key: ['id'], owner: 'git-server', readers: ['backup', 'doctor', 'metrics'] },
  { name: 'events', key: ['seq'], owner: 'events', readers: ['event-log', 'webhooks'] },
]
