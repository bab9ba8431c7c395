import type { Json } from '#base/json.ts'
import { UsageError } from '../terminal/command-errors.ts'
import { at, dateOf, showResult, textAt } from '../terminal/display.ts'
import type { ClientOperation, CommandInput, Work } from './operation.ts'
import { orNamespace, timeOf, wholeOf } from './operation-request.ts'

const withSecret = {
  '--with-secret': 'sign deliveries with a secret from standard input or a prompt',
}
const attemptsOf = (delivery: Json) =>
  `${textAt(delivery, 'attempts')} of ${textAt(delivery, 'maxAttempts')}`

const ofRepositories: ClientOperation[] = [
  {
    command: 'webhooks list',
    operations: ['listWebhooks'],
    summary: 'list the webhooks of a repository',
    arguments: ['repository'],
    table: {
      ID: 'id',
      URL: 'url',
      EVENTS: 'events',
      HEALTH: 'health',
      PENDING: 'pending',
      CREATED: dateOf('createdAt'),
    },
  },
  {
    command: 'webhooks create',
    operations: ['createWebhook'],
    summary: 'create a webhook',
    arguments: ['repository', 'url'],
    options: { '--event <event...>': 'push, workflow, or both', ...withSecret },
    run: async (work) => {
      const events = work.input.list('event') ?? ['push']
      const body = await work.client.json(work.request({ events, secret: await secretOf(work) }))
      showResult(work, body, `Created the webhook ${textAt(body, 'id')}.`)
    },
  },
  {
    command: 'webhooks show',
    operations: ['getWebhook'],
    summary: 'show a webhook',
    arguments: ['repository', 'webhook'],
    fields: {
      URL: 'url',
      Events: 'events',
      Enabled: 'enabled',
      Health: 'health',
      'Disabled because': 'disabledReason',
      Signed: 'hasSecret',
      Pending: 'pending',
      Created: dateOf('createdAt'),
      Id: 'id',
    },
  },
  {
    command: 'webhooks edit',
    operations: ['updateWebhook'],
    summary: 'change, enable or disable a webhook',
    arguments: ['repository', 'webhook'],
    options: {
      '--url <url>': 'new address',
      '--event <event...>': 'push, workflow, or both',
      ...withSecret,
      '--without-secret': 'sign deliveries no longer',
      '--keep-previous-secret <seconds>': 'sign with the previous secret, too',
      '--enable': 'enable it',
      '--disable': 'disable it',
    },
    fill: (input) => ({
      enabled: enabledOf(input),
      keepPreviousSecretSeconds: wholeOf(
        input.option('keepPreviousSecret'),
        '--keep-previous-secret',
      ),
    }),
    run: async (work) => {
      const body = await work.client.json(work.request({ secret: await secretOf(work) }))
      showResult(work, body, `Changed the webhook ${textAt(body, 'id')}.`)
    },
  },
  {
    command: 'webhooks delete',
    operations: ['deleteWebhook'],
    summary: 'delete a webhook and its deliveries',
    arguments: ['repository', 'webhook'],
    confirm: ({ argument }) => ({
      question: `This deletes the webhook ${argument('webhook')} and its deliveries for good. Type yes to continue: `,
      expected: 'yes',
    }),
    sentence: (_, { argument }) => `Deleted the webhook ${argument('webhook')}.`,
    json: ({ argument }) => ({ id: argument('webhook'), deleted: true }),
  },
  {
    command: 'webhooks ping',
    operations: ['pingWebhook'],
    summary: 'send a ping to a webhook',
    arguments: ['repository', 'webhook'],
    sentence: (body) => `Queued the delivery ${textAt(body, 'id')}.`,
  },
  {
    command: 'deliveries list',
    operations: ['listDeliveries'],
    summary: 'list the deliveries of a webhook, newest first',
    arguments: ['repository', 'webhook'],
    options: {
      '--status <status>': 'only those with this status',
      '--event <event>': 'only those of this event',
      '--limit <number>': 'at most this many (default: 30)',
    },
    table: {
      ID: 'id',
      EVENT: 'event',
      STATUS: 'status',
      ATTEMPTS: attemptsOf,
      RESPONSE: 'responseStatus',
      CREATED: dateOf('createdAt'),
      ERROR: 'error',
    },
  },
  {
    command: 'deliveries show',
    operations: ['getDelivery'],
    summary: 'show a delivery; with --json also its body and attempts',
    arguments: ['repository', 'webhook', 'delivery'],
    fields: {
      Event: 'event',
      URL: 'url',
      Status: 'status',
      Attempts: attemptsOf,
      Response: 'responseStatus',
      Error: 'error',
      Created: dateOf('createdAt'),
      'Next attempt': (row) =>
        at(row, 'nextAttemptAt') === null ? '' : dateOf('nextAttemptAt')(row),
      Id: 'id',
    },
  },
  {
    command: 'deliveries retry',
    operations: ['retryDelivery'],
    summary: 'attempt a delivery again now',
    arguments: ['repository', 'webhook', 'delivery'],
    sentence: (body) => `Queued the delivery ${textAt(body, 'id')}.`,
  },
  {
    command: 'deliveries replay',
    operations: ['replayDeliveries'],
    summary: 'deliver the events of a period again',
    arguments: ['repository', 'webhook'],
    options: {
      '--since <time>': 'start of the period, such as 2026-11-24T08:00:00Z',
      '--until <time>': 'end of the period (default: now)',
      '--only-failed': 'only events whose deliveries failed',
      '--after <number>': 'continue after this sequence number',
    },
    // Without a start: everything that is retained.
    fill: ({ option }) => ({ since: timeOf(option('since'), '--since') ?? 0 }),
    sentence: (body) =>
      at(body, 'more') === true
        ? `Replayed ${textAt(body, 'replayed')} deliveries; there are more: --after ${textAt(body, 'next')}`
        : `Replayed ${textAt(body, 'replayed')} deliveries.`,
  },
]

export const webhookOperations = ofRepositories.map(orNamespace)

async function secretOf({ input: { flag }, terminal }: Work): Promise<string | null | undefined> {
  if (flag('withSecret') && flag('withoutSecret')) {
    throw new UsageError('--with-secret and --without-secret exclude each other.')
  }
  if (flag('withoutSecret')) return null
  if (!flag('withSecret')) return undefined
  const { readValue } = await import('../terminal/given-values.ts')
  return (await readValue('the secret', terminal)).reveal()
}

function enabledOf({ flag }: CommandInput): boolean | undefined {
  if (flag('enable') && flag('disable')) {
    throw new UsageError('--enable and --disable exclude each other.')
  }
  if (flag('enable')) return true
  return flag('disable') ? false : undefined
}
