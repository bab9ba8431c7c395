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
  'repository.description': { description: 'Our site' },
  'repository.default_branch': { branch: 'trunk', formerBranch: 'main' },
  'repository.deleted': { name: 'site', ownerUsername: 'ada' },
  'repository.restored': { name: 'site', formerName: 'page' },
  'repository.purged': { name: 'site', ownerUsername: 'ada' },
  'protection.added': { branch: 'main', tag: null, owners: 'any', requires: [] },
  'protection.changed': { branch: null, tag: 'v*', owners: 'none', requires: ['ci.yml'] },
  'protection.removed': { branch: 'main', tag: null },
  'collaborator.added': { username: 'grace', role: 'write' },
  'collaborator.changed': { username: 'grace', role: 'read', formerRole: 'write' },
  'collaborator.removed': { username: 'grace' },
  'secret.saved': { name: 'TOKEN' },
  'secret.deleted': { name: 'TOKEN' },
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
  },
  'ssh_key.deleted': { keyId: 'k', username: 'ada' },
}

/** An event of a kind. */
export function sampleEvent(kind: Event['kind'], repositoryId: string | null): Event {
  const actor = { id: 'local', username: 'admin' }
  // The data of the table is that of its kind.
  return { kind, actor, repositoryId, data: sampleData[kind] } as Event
}
