import { at, dateOf, textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { Cell, ClientOperation, CommandInput } from '../operation.ts'
import { timeOf, wholeOf } from './option-values.ts'
import { runSaveWebhook } from './run-save-webhook.ts'

const eventsOption = {
  flags: '--event <event...>',
  description: 'push, workflow, or both',
  choices: ['push', 'workflow'],
}

const deliveryColumns: Record<string, Cell> = {
  ID: 'id',
  EVENT: 'event',
  STATUS: 'status',
  ATTEMPTS: (row) => `${textAt(row, 'attempts')} of ${textAt(row, 'maxAttempts')}`,
  RESPONSE: 'responseStatus',
  CREATED: dateOf('createdAt'),
  ERROR: 'error',
}

export const webhookOperations: ClientOperation[] = [
  {
    command: 'webhooks list',
    operations: ['listWebhooks'],
    summary: 'list the webhooks of a repository',
    arguments: ['repository'],
    request: (input) => ({ method: 'GET', path: hooksPath(input) }),
    show: {
      kind: 'table',
      isPaged: true,
      columns: {
        ID: 'id',
        URL: 'url',
        EVENTS: 'events',
        HEALTH: 'health',
        PENDING: 'pending',
        CREATED: dateOf('createdAt'),
      },
    },
  },
  {
    command: 'webhooks create',
    operations: ['createWebhook'],
    summary: 'create a webhook',
    arguments: ['repository', 'url'],
    options: [
      eventsOption,
      {
        flags: '--with-secret',
        description: 'sign deliveries with a secret from standard input or a prompt',
      },
    ],
    run: runSaveWebhook,
  },
  {
    command: 'webhooks show',
    operations: ['getWebhook'],
    summary: 'show a webhook',
    arguments: ['repository', 'webhook'],
    request: (input) => ({ method: 'GET', path: hookPath(input) }),
    show: {
      kind: 'fields',
      columns: {
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
  },
  {
    command: 'webhooks edit',
    operations: ['updateWebhook'],
    summary: 'change, enable or disable a webhook',
    arguments: ['repository', 'webhook'],
    options: [
      { flags: '--url <url>', description: 'new address' },
      eventsOption,
      {
        flags: '--with-secret',
        description: 'sign deliveries with a secret from standard input or a prompt',
      },
      { flags: '--without-secret', description: 'sign deliveries no longer' },
      {
        flags: '--keep-previous-secret <seconds>',
        description: 'sign with the previous secret, too',
      },
      { flags: '--enable', description: 'enable it' },
      { flags: '--disable', description: 'disable it' },
    ],
    run: runSaveWebhook,
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
    request: (input) => ({ method: 'DELETE', path: hookPath(input) }),
    show: {
      kind: 'sentence',
      text: (_, { argument }) => `Deleted the webhook ${argument('webhook')}.`,
      json: ({ argument }) => ({ id: argument('webhook'), deleted: true }),
    },
  },
  {
    command: 'webhooks ping',
    operations: ['pingWebhook'],
    summary: 'send a ping to a webhook',
    arguments: ['repository', 'webhook'],
    request: (input) => ({ method: 'POST', path: `${hookPath(input)}/ping` }),
    show: { kind: 'sentence', text: (body) => `Queued the delivery ${textAt(body, 'id')}.` },
  },
  {
    command: 'deliveries list',
    operations: ['listDeliveries'],
    summary: 'list the deliveries of a webhook, newest first',
    arguments: ['repository', 'webhook'],
    options: [
      {
        flags: '--status <status>',
        description: 'only those with this status',
        choices: ['pending', 'success', 'failed'],
      },
      {
        flags: '--event <event>',
        description: 'only those of this event',
        choices: ['push', 'workflow', 'ping'],
      },
      { flags: '--limit <number>', description: 'at most this many (default: 30)' },
    ],
    request: (input) => ({
      method: 'GET',
      path: `${hookPath(input)}/deliveries`,
      query: { status: input.option('status'), event: input.option('event') },
    }),
    show: { kind: 'table', isPaged: true, columns: deliveryColumns },
  },
  {
    command: 'deliveries show',
    operations: ['getDelivery'],
    summary: 'show a delivery; with --json also its body and attempts',
    arguments: ['repository', 'webhook', 'delivery'],
    request: (input) => ({ method: 'GET', path: deliveryPath(input) }),
    show: {
      kind: 'fields',
      columns: {
        Event: 'event',
        URL: 'url',
        Status: 'status',
        Attempts: (row) => `${textAt(row, 'attempts')} of ${textAt(row, 'maxAttempts')}`,
        Response: 'responseStatus',
        Error: 'error',
        Created: dateOf('createdAt'),
        'Next attempt': dateIfAny('nextAttemptAt'),
        Id: 'id',
      },
    },
  },
  {
    command: 'deliveries retry',
    operations: ['retryDelivery'],
    summary: 'attempt a delivery again now',
    arguments: ['repository', 'webhook', 'delivery'],
    request: (input) => ({ method: 'POST', path: `${deliveryPath(input)}/retry` }),
    show: { kind: 'sentence', text: (body) => `Queued the delivery ${textAt(body, 'id')}.` },
  },
  {
    command: 'deliveries replay',
    operations: ['replayDeliveries'],
    summary: 'deliver the events of a period again',
    arguments: ['repository', 'webhook'],
    options: [
      { flags: '--since <time>', description: 'start of the period, such as 2026-11-24T08:00:00Z' },
      { flags: '--until <time>', description: 'end of the period (default: now)' },
      { flags: '--only-failed', description: 'only events whose deliveries failed' },
      { flags: '--after <number>', description: 'continue after this sequence number' },
    ],
    request: (input) => ({
      method: 'POST',
      path: `${hookPath(input)}/replay`,
      body: {
        // Without a start: everything that is retained.
        since: timeOf(input.option('since'), '--since') ?? 0,
        until: timeOf(input.option('until'), '--until'),
        onlyFailed: input.flag('onlyFailed'),
        after: wholeOf(input.option('after'), '--after'),
      },
    }),
    show: {
      kind: 'sentence',
      text: (body) =>
        at(body, 'more') === true
          ? `Replayed ${textAt(body, 'replayed')} deliveries; there are more: --after ${textAt(body, 'next')}`
          : `Replayed ${textAt(body, 'replayed')} deliveries.`,
    },
  },
]

function hooksPath({ argument }: CommandInput): string {
  return path`/repos/${argument('repository')}/webhooks`
}

function hookPath(input: CommandInput): string {
  return hooksPath(input) + path`/${input.argument('webhook')}`
}

function deliveryPath(input: CommandInput): string {
  return `${hookPath(input)}/deliveries${path`/${input.argument('delivery')}`}`
}

function dateIfAny(name: string): Cell {
  const cell = dateOf(name)
  return (row) => (at(row, name) === null || typeof cell === 'string' ? '' : cell(row))
}
