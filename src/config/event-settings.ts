import type { Setting } from './setting.ts'
import { parseSchedule, wholeNumber } from './setting-values.ts'

/** The settings of webhooks and of what is remembered: events, pushes, what pushes overwrote. */
export const eventSettings = {
  webhookRetrySchedule: {
    variable: 'SVC_WEBHOOK_RETRY_SCHEDULE',
    description:
      'Delays before the attempts of a webhook delivery, one for each. The first attempt is made at once all the same; the delays of the others vary by a tenth.',
    accepts: 'up to 30 whole numbers of seconds from 0 to 604800, separated by commas',
    fallback: '0,5,300,1800,7200,18000,36000,36000',
    parse: parseSchedule,
  } satisfies Setting<readonly [number, ...number[]]>,
  deliveriesKeptDays: {
    variable: 'SVC_DELIVERIES_KEPT_DAYS',
    description: 'Days after which webhook deliveries are forgotten, with their attempts.',
    accepts: 'days from 1 to 3650',
    fallback: '90',
    parse: wholeNumber(1, 3650),
  } satisfies Setting<number>,
  eventsKeptDays: {
    variable: 'SVC_EVENTS_KEPT_DAYS',
    description: 'Days after which events and the journal of pushes are forgotten.',
    accepts: 'days from 1 to 3650',
    fallback: '90',
    parse: wholeNumber(1, 3650),
  } satisfies Setting<number>,
  undoDays: {
    variable: 'SVC_UNDO_DAYS',
    description:
      'Days for which commits are kept that a push overwrote or deleted, so that it can be undone.',
    accepts: 'days from 0 to 3650',
    fallback: '30',
    parse: wholeNumber(0, 3650),
  } satisfies Setting<number>,
}
