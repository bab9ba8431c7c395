import { Type } from 'typebox'
import { field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'

const queued = {
  position: field.integer('its place, from 1'),
  state: Type.Enum(['waiting', 'trying'], {
    description: '`trying` when a commit with it is tried',
  }),
  version: field.integer('the version that lands'),
  method: Type.Enum(['merge', 'squash', 'rebase'], { description: 'how it lands' }),
  urgent: Type.Boolean({ description: 'whether it goes before the others' }),
  username: field.text('who has queued it'),
  queuedAt: field.time('when it was queued'),
}

export const QueuedSchema = Type.Object(queued)

const TrialSchema = Type.Object({
  ref: field.text('the ref by which the commit is fetched'),
  commit: field.text('the commit that the branch gets if everything required of it succeeds'),
  changes: Type.Array(Type.Integer(), { description: 'the changes that it lands' }),
  lands: Type.Boolean({
    description:
      'whether the branch is to move to it; otherwise it shows which changes are to blame for a failure',
  }),
  runs: field.texts('the ids of its runs'),
})

export const QueueSchema = named(
  'LandingQueue',
  Type.Object({
    target: field.text('the branch'),
    changes: Type.Array(
      Type.Object({
        number: field.integer('the number of the change'),
        title: field.text('its title'),
        ...queued,
      }),
      { description: 'in the order in which they are tried' },
    ),
    trials: Type.Array(TrialSchema, { description: 'the commits that are tried at present' }),
  }),
)
