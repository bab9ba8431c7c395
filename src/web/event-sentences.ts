import type { Static } from 'typebox'
import type { LoggedEvent } from '#api/event-log/event-routes.ts'
import { shortRef } from '#base/short-ref.ts'
import type { EventData } from '#events/events.ts'
import { changeSentences } from './change-sentences.ts'
import { counted, shortId } from './display-text.ts'
import type { Links } from './links.ts'
import { type Html, html } from './render/html.ts'
import { describeState } from './run-states.ts'
import { type Describe, type EventSentence, link, type SentencePart } from './sentence-parts.ts'

type Logged = Static<typeof LoggedEvent>

/** Says what an event is: `ada pushed to main of site`. */
export function toSentence(event: Logged, to: Links): EventSentence {
  const { kind, repoName, actor, data } = event
  const name = repoName ?? nameIn(data)
  const about = {
    who: { text: actor.username },
    repository: { text: name, ...(repoName !== null && { href: to.repository(repoName) }) },
    of: (path: string) => (repoName === null ? undefined : to.of(repoName, path)),
  }
  // The server wrote the event, so its kind determines the type of its data.
  const describe = sentences[kind as keyof EventData] as Describe<keyof EventData>
  const { tone = '', ...rest } = describe(data as EventData[keyof EventData], about)
  return { tone, ...rest }
}

/** The parts of a sentence as HTML. */
export function renderSentence({ parts }: Pick<EventSentence, 'parts'>): Html {
  return html`${parts.map((part) => {
    if (typeof part === 'string') return part
    return part.href === undefined
      ? html`<b>${part.text}</b>`
      : html`<a href="${part.href}"><b>${part.text}</b></a>`
  })}`
}

const sentences: { [K in keyof EventData]: Describe<K> } = {
  push: ({ ref, before, after, forced, via, pushId }, { who, repository, of }) => {
    const target = link(shortRef(ref), of(`pushes/${pushId}`))
    const tail = [' of ', repository]
    if (via === 'undo') return { icon: 'undo', parts: [who, ' undid a push to ', target, ...tail] }
    if (isZero(after)) return { icon: 'push', parts: [who, ' deleted ', target, ...tail] }
    if (isZero(before)) return { icon: 'push', parts: [who, ' created ', target, ...tail] }
    const verb = forced ? ' force-pushed to ' : ' pushed to '
    return { icon: 'push', tone: forced ? 'bad' : '', parts: [who, verb, target, ...tail] }
  },
  'push.leak_allowed': ({ findings, pushId }, { who, repository, of }) => ({
    icon: 'warning',
    tone: 'bad',
    parts: [
      who,
      ' pushed ',
      link(counted(findings.length, 'allowed credential'), of(`pushes/${pushId}`)),
      ' to ',
      repository,
    ],
  }),
  'repository.created': (_, { who, repository }) => ({
    icon: 'plus',
    parts: [who, ' created ', repository],
  }),
  'repository.imported': ({ source }, { who, repository }) => ({
    icon: 'download',
    parts: [who, ' imported ', repository, source === '' ? '' : ` from ${source}`],
  }),
  'repository.renamed': ({ formerName }, { who, repository }) => ({
    icon: 'database',
    parts:
      formerName === ''
        ? [who, ' renamed the repository to ', repository]
        : [who, ' renamed ', { text: formerName }, ' to ', repository],
  }),
  'repository.description': (_, { who, repository }) => ({
    icon: 'file',
    parts: [who, ' changed the description of ', repository],
  }),
  'repository.leak_guard': ({ enabled }, { who, repository }) => ({
    icon: 'shield',
    parts: [who, ` switched the leak guard of `, repository, enabled ? ' on' : ' off'],
  }),
  'repository.run_tokens': ({ access }, { who, repository }) => ({
    icon: 'shield',
    parts: [
      who,
      ' set the most that tokens of runs may do to ',
      { text: access },
      ' in ',
      repository,
    ],
  }),
  'repository.visibility': ({ visibility }, { who, repository }) => ({
    icon: 'shield',
    parts: [who, ' made ', repository, ' ', { text: visibility }],
  }),
  'repository.transferred': ({ ownerUsername }, { who, repository }) => ({
    icon: 'person',
    parts: [who, ' transferred ', repository, ' to ', { text: ownerUsername }],
  }),
  'repository.default_branch': ({ branch }, { who, repository }) => ({
    icon: 'branch',
    parts: [who, ' made ', { text: branch }, ' the default branch of ', repository],
  }),
  'repository.deleted': (_, { who, repository }) => ({
    icon: 'cross',
    parts: [who, ' deleted ', repository],
  }),
  'repository.restored': (_, { who, repository }) => ({
    icon: 'undo',
    parts: [who, ' restored ', repository],
  }),
  'repository.purged': (_, { who, repository }) => ({
    icon: 'cross',
    parts: [who, ' removed ', repository, ' for good'],
  }),
  'protection.added': (data, { who, repository }) => ({
    icon: 'shield',
    parts: [who, ' protected ', protectedRef(data), ' of ', repository],
  }),
  'protection.changed': (data, { who, repository }) => ({
    icon: 'shield',
    parts: [who, ' changed the protection of ', protectedRef(data), ' of ', repository],
  }),
  'protection.removed': (data, { who, repository }) => ({
    icon: 'shield',
    parts: [who, ' removed the protection of ', protectedRef(data), ' of ', repository],
  }),
  'collaborator.added': ({ username, role }, { who, repository }) => ({
    icon: 'person',
    parts: [who, ' added ', { text: username }, ' to ', repository, ` with the role ${role}`],
  }),
  'collaborator.changed': ({ username, role, formerRole }, { who, repository }) => ({
    icon: 'person',
    parts: [
      who,
      ' changed the role of ',
      { text: username },
      ' in ',
      repository,
      ` from ${formerRole} to ${role}`,
    ],
  }),
  'collaborator.removed': ({ username }, { who, repository }) => ({
    icon: 'person',
    parts: [who, ' removed ', { text: username }, ' from ', repository],
  }),
  'secret.saved': ({ name }, { who, repository }) => ({
    icon: 'key',
    parts: [who, ' saved the secret ', { text: name }, ' of ', repository],
  }),
  'secret.deleted': ({ name }, { who, repository }) => ({
    icon: 'key',
    parts: [who, ' deleted the secret ', { text: name }, ' of ', repository],
  }),
  'lfs_lock.created': ({ path }, { who, repository }) => ({
    icon: 'lock',
    parts: [who, ' locked ', { text: path }, ' of ', repository],
  }),
  'lfs_lock.deleted': ({ path }, { who, repository }) => ({
    icon: 'lock',
    parts: [who, ' unlocked ', { text: path }, ' of ', repository],
  }),
  'status.reported': ({ commit, context, state }, { who, repository, of }) => ({
    icon: 'check',
    parts: [
      ...[who, ` reported ${state} of `, { text: context }, ' for '],
      ...[link(shortId(commit), of(`commit/${commit}`)), ' of ', repository],
    ],
  }),
  ...changeSentences,
  workflow: ({ action, number, attempt, conclusion, name }, { repository, of }) => {
    const run = link(`Run ${number}`, of(`runs/${number}`))
    const ofAttempt = attempt > 1 ? `, attempt ${attempt},` : ''
    const { shape, tone, predicate } = describeState({ status: action, conclusion })
    const rest = `${ofAttempt} ${predicate}: ${name}`
    return { icon: shape, tone, parts: [run, ' of ', repository, rest] }
  },
  'webhook.created': ({ webhookId }, { who, repository, of }) => ({
    icon: 'webhook',
    parts: [who, ' created ', link('a webhook', of(`webhooks/${webhookId}`)), ' of ', repository],
  }),
  'webhook.updated': ({ webhookId, changed }, { who, repository, of }) => ({
    icon: 'webhook',
    parts: [
      who,
      ` changed ${namesOf(changed)} of `,
      link('a webhook', of(`webhooks/${webhookId}`)),
      ' of ',
      repository,
    ],
  }),
  'webhook.disabled': ({ webhookId, reason }, { repository, of }) => ({
    icon: 'warning',
    tone: 'bad',
    parts: [
      link('A webhook', of(`webhooks/${webhookId}`)),
      ' of ',
      repository,
      ` was disabled: ${reason}`,
    ],
  }),
  'webhook.deleted': (_, { who, repository }) => ({
    icon: 'webhook',
    parts: [who, ' deleted a webhook of ', repository],
  }),
  'namespace.created': ({ namespace }, { who }) => ({
    icon: 'plus',
    parts: [who, ' created the namespace ', { text: namespace }],
  }),
  'namespace.updated': ({ namespace, formerName }, { who }) => ({
    icon: 'database',
    parts: [who, ' renamed the namespace ', { text: formerName }, ' to ', { text: namespace }],
  }),
  'namespace.limited': ({ namespace }, { who }) => ({
    icon: 'database',
    parts: [who, ' changed the limits of the namespace ', { text: namespace }],
  }),
  'namespace.deleted': ({ namespace }, { who }) => ({
    icon: 'cross',
    parts: [who, ' deleted the namespace ', { text: namespace }],
  }),
  'namespace.member_added': ({ namespace, member, role }, { who }) => ({
    icon: 'person',
    parts: [who, ' gave ', { text: member }, ` the role ${role} in `, { text: namespace }],
  }),
  'namespace.member_removed': ({ namespace, member }, { who }) => ({
    icon: 'person',
    parts: [who, ' removed ', { text: member }, ' from ', { text: namespace }],
  }),
  'user.updated': (
    { username, changed, disabled, admin, addedGroups, removedGroups },
    { who },
  ) => ({
    icon: 'person',
    parts: [
      who,
      changed.includes('disabled') ? (disabled ? ' disabled ' : ' enabled ') : ' changed ',
      'the user ',
      { text: username },
      ...(admin === undefined ? [] : [admin ? ', now an admin' : ', no longer an admin']),
      ...groupParts(', no longer in ', removedGroups),
      ...groupParts(', now in ', addedGroups),
    ],
  }),
  'user.deleted': ({ username }, { who }) => ({
    icon: 'person',
    parts: [who, ' deleted the user ', { text: username }],
  }),
  'token.created': ({ name, username }, { who }) => ({
    icon: 'key',
    parts: [who, ' created the token ', { text: name }, ' of ', { text: username }],
  }),
  'token.deleted': (_, { who }) => ({ icon: 'key', parts: [who, ' deleted a token'] }),
  'ssh_key.added': ({ name, username }, { who }) => ({
    icon: 'key',
    parts: [who, ' added the SSH key ', { text: name }, ' of ', { text: username }],
  }),
  'ssh_key.deleted': ({ username }, { who }) => ({
    icon: 'key',
    parts: [who, ' deleted an SSH key of ', { text: username }],
  }),
  'trust_rule.created': ({ name, issuer }, { who, repository }) => ({
    icon: 'key',
    parts: [who, ' created the trust rule ', { text: name }, ` for ${issuer} of `, repository],
  }),
  'trust_rule.deleted': ({ name }, { who, repository }) => ({
    icon: 'key',
    parts: [who, ' deleted the trust rule ', { text: name }, ' of ', repository],
  }),
}

const webhookFields: Record<string, string> = {
  url: 'the URL',
  events: 'the events',
  secret: 'the secret',
  enabled: 'the state',
}

function namesOf(changed: readonly string[]): string {
  return changed.map((name) => webhookFields[name] ?? name).join(' and ')
}

function protectedRef({ branch, tag }: { branch: string | null; tag: string | null }) {
  return { text: branch ?? `the tag ${tag}` }
}

/** The name at the time of the event, of a repository that is gone. */
function nameIn({ name, repositoryName, namespace }: Record<string, unknown>): string {
  const given = namespace ?? repositoryName ?? name
  return typeof given === 'string' ? given : 'a deleted repository'
}

function isZero(id: string): boolean {
  return /^0+$/.test(id)
}

const maxGroups = 5

/** Names the first of some groups. */
function groupParts(words: string, names: string[] = []): SentencePart[] {
  const text = names.slice(0, maxGroups).join(', ')
  const more = names.length > maxGroups ? [` and ${names.length - maxGroups} more`] : []
  return names.length === 0 ? [] : [words, { text }, ...more]
}
