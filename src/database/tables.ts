/** A table by its name in SQL. */
export type Table = {
  name: string
  /** The columns of its primary key. */
  key: readonly [string, ...string[]]
  /** The folder of `src/` whose stores write it. */
  owner: string
  /** Other folders whose stores read it, and why they do not call the owner's store. */
  readers?: Readonly<Record<string, string>>
  /** Other folders whose stores write it, and why. */
  writers?: Readonly<Record<string, string>>
  /** Whether backups leave out its rows, because they contain refs and packs as files. */
  isOfStore?: boolean
  /** Whether backups leave out its rows, because they are of no use after a restore. */
  isTransient?: boolean
}

// Features do not know each other, and a database that the doctor examines may have an older schema.
const byDoctor = { 'ops/doctor': 'examines it' }
const byMetrics = { 'ops/metrics': 'counts its rows' }
const byRotation = { secrets: 'reseals the secrets of all tables when keys are rotated' }
const forActivity = { browse: 'shows the activity of many repositories at once' }
const forRunsOfVersions = { 'workflows/starting': 'starts runs of versions, and is a lower folder' }
const withRepository = 'joins the repository of its rows'
const withScope = { repositories: 'deletes those of a repository or a namespace with it' }

/** Every table except `schema_version`, referenced tables first. Backups copy the tables in this order. */
export const tables: readonly Table[] = [
  {
    name: 'instance',
    key: ['id'],
    owner: 'repositories',
    readers: { 'repositories/store': 'marks its bucket with the id, and is a lower folder' },
    writers: { 'repositories/store': 'records which bucket has the mark' },
  },
  {
    name: 'marks',
    key: ['name'],
    owner: 'events',
    readers: byDoctor,
    writers: {
      'events/audit': 'numbers its entries',
      'identity/tokens': 'has a mark of its own: that the first token was created',
    },
  },
  {
    name: 'users',
    key: ['id'],
    owner: 'identity',
    readers: { 'identity/logins': 'finds the logins of users that have not ended' },
  },
  { name: 'logins', key: ['id'], owner: 'identity/logins' },
  {
    name: 'user_groups',
    key: ['username', 'name'],
    owner: 'identity/logins',
    readers: { repositories: 'gives users the roles of their groups in namespaces' },
  },
  { name: 'login_attempts', key: ['state_hash'], owner: 'identity/logins', isTransient: true },
  {
    name: 'tokens',
    key: ['id'],
    owner: 'identity/tokens',
    readers: { ...byDoctor, 'identity/logins': 'finds the consents of a user to delete them' },
  },
  { name: 'leak_guard_keys', key: ['id'], owner: 'git-server/leak-guard' },
  { name: 'ssh_keys', key: ['id'], owner: 'identity/ssh-keys' },
  { name: 'sessions', key: ['id'], owner: 'identity/sessions', isTransient: true },
  { name: 'cli_logins', key: ['code_hash'], owner: 'identity/logins', isTransient: true },
  { name: 'login_codes', key: ['code_hash'], owner: 'identity/sessions', isTransient: true },
  {
    name: 'namespaces',
    key: ['id'],
    owner: 'repositories',
    readers: {
      'identity/trust-rules': 'joins the namespace of its rows',
      webhooks: 'joins the namespace of its rows',
    },
  },
  { name: 'namespace_members', key: ['namespace_id', 'member'], owner: 'repositories' },
  { name: 'namespace_limits', key: ['namespace_id'], owner: 'repositories' },
  { name: 'namespace_days', key: ['namespace_id', 'day'], owner: 'repositories' },
  {
    name: 'repositories',
    key: ['id'],
    owner: 'repositories',
    readers: {
      ...byDoctor,
      'api/event-log': withRepository,
      'git-server': 'records no push to a deleted repository',
      'identity/trust-rules': 'leaves out repositories that are not in the namespace of a rule',
      'ops/maintenance': 'skips deleted repositories',
      'ops/metrics': 'skips deleted repositories',
      'repositories/store': 'locks the row, which has the version of refs and packs',
      webhooks: withRepository,
    },
    writers: { 'repositories/store': 'raises the version with each change of refs and packs' },
  },
  { name: 'trust_rules', key: ['id'], owner: 'identity/trust-rules' },
  {
    name: 'trust_rule_repositories',
    key: ['rule_id', 'repository_id'],
    owner: 'identity/trust-rules',
  },
  {
    name: 'workload_tokens',
    key: ['id'],
    owner: 'identity/trust-rules',
    isTransient: true,
  },
  { name: 'former_names', key: ['name_key'], owner: 'repositories' },
  { name: 'imports', key: ['repository_id'], owner: 'repositories' },
  {
    name: 'maintenance',
    key: ['repository_id'],
    owner: 'ops/maintenance',
    readers: { repositories: 'shows its state, and is a lower folder' },
  },
  { name: 'protections', key: ['scope_id', 'branch'], owner: 'repositories' },
  {
    name: 'collaborators',
    key: ['repository_id', 'username'],
    owner: 'repositories',
  },
  {
    name: 'lfs_objects',
    key: ['repository_id', 'oid'],
    owner: 'repositories',
    readers: byDoctor,
  },
  { name: 'lfs_locks', key: ['id'], owner: 'repositories' },
  {
    name: 'changes',
    key: ['repository_id', 'number'],
    owner: 'changes',
    readers: forRunsOfVersions,
  },
  {
    name: 'change_versions',
    key: ['repository_id', 'number', 'version'],
    owner: 'changes',
    readers: forRunsOfVersions,
  },
  { name: 'queued_changes', key: ['repository_id', 'number'], owner: 'changes' },
  { name: 'branch_queues', key: ['repository_id', 'target'], owner: 'changes' },
  { name: 'change_comments', key: ['id'], owner: 'changes' },
  { name: 'change_verdicts', key: ['repository_id', 'number', 'username'], owner: 'changes' },
  { name: 'commit_statuses', key: ['id'], owner: 'workflows' },
  { name: 'lfs_tokens', key: ['token_hash'], owner: 'git-server', isTransient: true },
  { name: 'refs', key: ['repository_id', 'name'], owner: 'repositories/store', isOfStore: true },
  { name: 'packs', key: ['key'], owner: 'repositories/store', readers: byDoctor, isOfStore: true },
  {
    name: 'uploads',
    key: ['key'],
    owner: 'repositories/store',
    readers: byDoctor,
    isOfStore: true,
  },
  { name: 'nodes', key: ['id'], owner: 'database/nodes', isOfStore: true },
  { name: 'secrets', key: ['id'], owner: 'secrets', writers: withScope },
  { name: 'runs', key: ['id'], owner: 'workflows', readers: forActivity },
  { name: 'run_numbers', key: ['repository_id'], owner: 'workflows' },
  { name: 'run_groups', key: ['run_id', 'name'], owner: 'workflows' },
  { name: 'run_attempts', key: ['run_id', 'attempt'], owner: 'workflows' },
  { name: 'run_jobs', key: ['run_id', 'attempt', 'job'], owner: 'workflows' },
  { name: 'run_steps', key: ['run_id', 'attempt', 'step'], owner: 'workflows' },
  { name: 'run_annotations', key: ['run_id', 'attempt', 'number'], owner: 'workflows' },
  { name: 'run_logs', key: ['run_id', 'attempt', 'start'], owner: 'workflows' },
  { name: 'schedules', key: ['repository_id', 'file', 'cron', 'timezone'], owner: 'workflows' },
  {
    name: 'run_files',
    key: ['id'],
    owner: 'workflows/run-files',
    readers: byDoctor,
    isTransient: true,
  },
  { name: 'artifacts', key: ['id'], owner: 'workflows/run-files', isTransient: true },
  { name: 'run_caches', key: ['id'], owner: 'workflows/run-files', isTransient: true },
  { name: 'job_tokens', key: ['token_hash'], owner: 'workflows', isTransient: true },
  { name: 'failed_workspaces', key: ['id'], owner: 'workflows/run-shells', isTransient: true },
  { name: 'run_shells', key: ['id'], owner: 'workflows/run-shells', isTransient: true },
  {
    name: 'run_shell_bytes',
    key: ['shell_id', 'direction', 'start'],
    owner: 'workflows/run-shells',
    isTransient: true,
  },
  { name: 'signing_keys', key: ['id'], owner: 'workflows/id-tokens', isTransient: true },
  {
    name: 'webhooks',
    key: ['id'],
    owner: 'webhooks',
    readers: { ...byDoctor, ...byMetrics, ...withScope },
    writers: withScope,
  },
  {
    name: 'webhook_secrets',
    key: ['id'],
    owner: 'webhooks',
    readers: byRotation,
    writers: byRotation,
  },
  { name: 'deliveries', key: ['id'], owner: 'webhooks', readers: byMetrics },
  { name: 'delivery_bodies', key: ['delivery_id'], owner: 'webhooks' },
  { name: 'delivery_attempts', key: ['delivery_id', 'attempt'], owner: 'webhooks' },
  {
    name: 'pushes',
    key: ['id'],
    owner: 'git-server',
    readers: {
      ...byDoctor,
      ...byMetrics,
      ...forActivity,
      'ops/backup': 'finds refs that change during a backup',
      repositories: 'counts what they are about to add',
      workflows: 'reads what a push says about its runs',
    },
  },
  {
    name: 'events',
    key: ['seq'],
    owner: 'events',
    readers: { ...byDoctor, 'api/event-log': 'joins repositories', webhooks: 'joins deliveries' },
  },
  { name: 'audit', key: ['seq'], owner: 'events/audit', readers: byDoctor },
]
