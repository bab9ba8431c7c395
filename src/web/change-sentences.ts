import { shortRef } from '#base/short-ref.ts'
import type { EventData } from '#events/events.ts'
import { type Describe, link } from './sentence-parts.ts'

const verdictVerbs: Record<string, string> = {
  approve: ' approved ',
  'request-changes': ' requested changes to ',
}

type Kind = Extract<keyof EventData, `change.${string}` | `queue.${string}`>

/** The sentences of changes and of their queue. */
export const changeSentences: { [K in Kind]: Describe<K> } = {
  'change.opened': ({ number, title }, { who, repository, of }) => ({
    icon: 'commit',
    parts: [
      who,
      ' proposed ',
      link(`change ${number}`, of(`changes/${number}`)),
      ' of ',
      repository,
      `: ${title}`,
    ],
  }),
  'change.version_added': ({ number, version, title }, { who, repository, of }) => ({
    icon: 'commit',
    parts: [
      ...[who, ` pushed version ${version} of `, link(`change ${number}`, of(`changes/${number}`))],
      ...[' of ', repository, `: ${title}`],
    ],
  }),
  'change.updated': ({ number, changed, state, title }, { who, repository, of }) => {
    const verb = !changed.includes('state') ? 'edited' : state === 'open' ? 'reopened' : 'abandoned'
    return {
      icon: 'commit',
      parts: [
        who,
        ` ${verb} `,
        link(`change ${number}`, of(`changes/${number}`)),
        ' of ',
        repository,
        `: ${title}`,
      ],
    }
  },
  'change.commented': ({ number }, { who, repository, of }) => ({
    icon: 'commit',
    parts: [
      who,
      ' commented on ',
      link(`change ${number}`, of(`changes/${number}`)),
      ' of ',
      repository,
    ],
  }),
  'change.comment_updated': ({ number, resolved }, { who, repository, of }) => ({
    icon: 'commit',
    parts: [
      ...[who, resolved ? ' resolved a thread of ' : ' edited or reopened a comment on '],
      ...[link(`change ${number}`, of(`changes/${number}`)), ' of ', repository],
    ],
  }),
  'change.verdict_given': ({ number, version, verdict }, { who, repository, of }) => ({
    icon: 'commit',
    parts: [
      ...[who, verdictVerbs[verdict] ?? ' withdrew a verdict on '],
      ...[
        link(`change ${number}`, of(`changes/${number}`)),
        `, version ${version}, of `,
        repository,
      ],
    ],
  }),
  'change.landed': ({ number, target, title }, { who, repository, of }) => ({
    icon: 'commit',
    parts: [
      ...[who, ' landed ', link(`change ${number}`, of(`changes/${number}`)), ' of ', repository],
      ` on ${shortRef(target)}: ${title}`,
    ],
  }),
  'change.queued': ({ number, target, urgent, title }, { who, repository, of }) => ({
    icon: 'commit',
    parts: [
      ...[who, ' queued ', link(`change ${number}`, of(`changes/${number}`)), ' of ', repository],
      `${urgent ? ' before the others' : ''} for ${shortRef(target)}: ${title}`,
    ],
  }),
  'change.unqueued': ({ number, reason, title }, { who, repository, of }) => ({
    icon: 'commit',
    parts: [
      ...(reason === 'withdrawn' ? [who, ' took '] : ['The queue removed ']),
      ...[link(`change ${number}`, of(`changes/${number}`)), ' of ', repository],
      `${reason === 'withdrawn' ? ' out of the queue' : ''}: ${title}`,
    ],
  }),
  'queue.trial_started': ({ target, changes = [] }, { repository }) => ({
    icon: 'commit',
    parts: [
      `The queue of ${shortRef(target)} of `,
      repository,
      ` tries ${changes.length === 1 ? 'change' : 'changes'} ${changes.join(', ')}`,
    ],
  }),
}
