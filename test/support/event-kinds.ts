import type { Event, EventData } from '#events/events.ts'

/** Data for an event of each kind, as the service writes it; what is about a username is about `ada`. */
export const sampleData: EventData = {
  push: {
    ref: 'refs/heads/main',
    before: '0'.repeat(40),
    after: 'a'.repeat(40),
    forced: false,
    pushId: 'p',
    via: 'http',
    repositoryName: 'site',
  },
  'push.leak_allowed': {
    pushId: 'p',
    via: 'http',
    repositoryName: 'site',
    findings: [
      { id: '0123456789ab', kind: 'svc token', commit: 'a'.repeat(40), path: 'deploy.sh', line: 1 },
    ],
  },
  'repository.created': { name: 'site' },
  'repository.imported': { name: 'site', source: 'https://example.com/site.git' },
  'repository.renamed': { name: 'site', formerName: 'page' },
  'repository.leak_guard': { enabled: false },
  'repository.run_tokens': { access: 'write' },
  'repository.visibility': { visibility: 'public', formerVisibility: 'private' },
  'repository.transferred': { ownerUsername: 'grace', formerOwnerUsername: 'ada' },
  'repository.description': { description: 'Our site' },
  'repository.default_branch': { branch: 'trunk', formerBranch: 'main' },
  'repository.deleted': { name: 'site', ownerUsername: 'ada' },
  'repository.restored': { name: 'site', formerName: 'page' },
  'repository.purged': { name: 'site', ownerUsername: 'ada' },
  'protection.added': {
    ...{ branch: 'main', tag: null, owners: 'any', requires: [] },
    ...{ approvals: 1, codeOwners: true, queue: true },
  },
  'protection.changed': {
    ...{ branch: null, tag: 'v*', owners: 'none', requires: ['ci.yml'] },
    ...{ approvals: 0, codeOwners: false, queue: false },
  },
  'protection.removed': { branch: 'main', tag: null },
  'collaborator.added': { username: 'grace', role: 'write' },
  'collaborator.changed': { username: 'grace', role: 'read', formerRole: 'write' },
  'collaborator.removed': { username: 'grace' },
  'namespace.created': { namespace: 'acme' },
  'namespace.limited': { namespace: 'acme', maxRepositories: 10, maxBytes: null },
  'namespace.updated': { namespace: 'acme', formerName: 'apex' },
  'namespace.deleted': { namespace: 'acme' },
  'namespace.member_added': { namespace: 'acme', member: 'group:web', role: 'write' },
  'namespace.member_removed': { namespace: 'acme', member: 'grace' },
  'secret.saved': { name: 'TOKEN' },
  'secret.deleted': { name: 'TOKEN' },
  'status.reported': {
    commit: 'a'.repeat(40),
    context: 'ci/build',
    state: 'success',
    description: 'It is good.',
    targetUrl: 'https://ci.example/1',
  },
  'change.opened': {
    ...{ number: 7, target: 'refs/heads/main', version: 1 },
    ...{ commit: 'a'.repeat(40), title: 'Add a gate' },
  },
  'change.version_added': {
    ...{ number: 7, target: 'refs/heads/main', version: 2 },
    ...{ commit: 'a'.repeat(40), title: 'Add a gate' },
  },
  'change.updated': {
    ...{ number: 7, target: 'refs/heads/main', changed: ['state'] },
    ...{ state: 'abandoned', title: 'Add a gate' },
  },
  'change.commented': {
    ...{ number: 7, target: 'refs/heads/main', version: 2 },
    ...{ commentId: 'c', threadId: 'c', path: 'gate.ts', line: 3 },
  },
  'change.comment_updated': {
    ...{ number: 7, target: 'refs/heads/main', commentId: 'c', threadId: 'c', resolved: true },
  },
  'change.verdict_given': {
    ...{ number: 7, target: 'refs/heads/main', version: 2, verdict: 'approve' },
  },
  'change.landed': {
    ...{ number: 7, target: 'refs/heads/main', version: 2 },
    ...{ commit: 'a'.repeat(40), pushId: 'p', title: 'Add a gate', note: '' },
  },
  'change.queued': {
    ...{ number: 7, target: 'refs/heads/main', version: 2 },
    ...{ method: 'squash', urgent: true, title: 'Add a gate' },
  },
  'change.unqueued': {
    ...{ number: 7, target: 'refs/heads/main', version: 2 },
    ...{ reason: 'failed', detail: 'Run 3 (ci) ended with failure.', title: 'Add a gate' },
  },
  'queue.trial_started': {
    ...{ target: 'refs/heads/main', ref: 'refs/changes/queue/b/1' },
    ...{ commit: 'a'.repeat(40), changes: [7, 8] },
  },
  'lfs_lock.created': { lockId: 'l', path: 'art/logo.psd', username: 'ada' },
  'lfs_lock.deleted': { lockId: 'l', path: 'art/logo.psd', username: 'ada' },
  workflow: {
    action: 'queued',
    runId: 'r',
    attempt: 1,
    number: 1,
    name: 'ci',
    repositoryName: 'site',
    branch: 'main',
    ref: 'refs/heads/main',
    commit: 'a'.repeat(40),
    event: 'push',
    files: ['.svc/workflows/ci.yml'],
    labels: [],
    isolation: '',
    conclusion: null,
    fault: '',
    createdAt: 1000,
    queuedAt: 1000,
    startedAt: null,
    completedAt: null,
  },
  'webhook.created': { webhookId: 'w', events: ['push'] },
  'webhook.updated': { webhookId: 'w', changed: ['url'] },
  'webhook.disabled': { webhookId: 'w', reason: 'It failed.' },
  'webhook.deleted': { webhookId: 'w' },
  'user.updated': {
    ...{ username: 'ada', changed: ['disabled'], disabled: true },
    ...{ admin: true, loginSubject: '1', addedGroups: ['web'], removedGroups: ['ops', 'leads'] },
  },
  'user.deleted': { username: 'ada' },
  'token.created': {
    tokenId: 't',
    name: 'ci',
    username: 'ada',
    permissions: ['repo:read'],
    repositoryIds: null,
    refs: ['refs/heads/x'],
    delegatedFrom: null,
  },
  'token.deleted': { tokenId: 't' },
  'ssh_key.added': {
    expiresAt: null,
    keyId: 'k',
    name: 'laptop',
    username: 'ada',
    fingerprint: 'SHA256:x',
    permissions: ['repo:read'],
    repositoryIds: null,
  },
  'ssh_key.deleted': { keyId: 'k', username: 'ada' },
  'trust_rule.created': {
    ruleId: 'r',
    name: 'deploy',
    issuer: 'https://ci.example.com',
    audience: 'https://svc.example.com',
    claims: { sub: 'repo:acme/site:*' },
    refs: null,
    permissions: ['repo:read'],
  },
  'trust_rule.deleted': { ruleId: 'r', name: 'deploy' },
}

/** An event of a kind. */
export function sampleEvent(kind: Event['kind'], repositoryId: string | null): Event {
  const actor = { id: 'local', username: 'admin' }
  // The data of the table is that of its kind.
  return { kind, actor, repositoryId, data: sampleData[kind] } as Event
}
