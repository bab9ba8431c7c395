import type { Setting } from './setting.ts'
import { parseSchedule, wholeNumber } from './setting-values.ts'

/** Settings of webhooks and of retention: events, pushes, overwritten commits. */
export const eventSettings = {
  webhookRetrySchedule: {
    variable: 'SVC_WEBHOOK_RETRY_SCHEDULE',
    description:
      'Delay before each attempt of a webhook delivery. The first attempt is always made at once; the other delays vary by 10%.',
    accepts: 'up to 30 whole numbers of seconds from 0 to 604800, separated by commas',
    fallback: '0,5,300,1800,7200,18000,36000,36000',
    parse: parseSchedule,
  } satisfies Setting<readonly [number, ...number[]]>,
  deliveriesKeptDays: {
    variable: 'SVC_DELIVERIES_KEPT_DAYS',
    description: 'Days for which webhook deliveries and their attempts are kept.',
    accepts: 'days from 1 to 3650',
    fallback: '90',
    parse: wholeNumber(1, 3650),
  } satisfies Setting<number>,
  eventsKeptDays: {
    variable: 'SVC_EVENTS_KEPT_DAYS',
    description: 'Days for which events and the push journal are kept.',
    accepts: 'days from 1 to 3650',
    fallback: '90',
    parse: wholeNumber(1, 3650),
  } satisfies Setting<number>,
  auditKeptDays: {
    variable: 'SVC_AUDIT_KEPT_DAYS',
    description: 'Days for which entries of the audit log are kept.',
    accepts: 'days from 1 to 36500',
    fallback: '365',
    parse: wholeNumber(1, 36_500),
  } satisfies Setting<number>,
  deletedRetentionDays: {
    variable: 'SVC_DELETED_RETENTION_DAYS',
    description:
      'Days for which a deleted repository can be restored; 0 removes it at once. When the disk is nearly full, the oldest are removed earlier.',
    accepts: 'days from 0 to 3650',
    fallback: '7',
    parse: wholeNumber(0, 3650),
  } satisfies Setting<number>,
  undoDays: {
    variable: 'SVC_UNDO_DAYS',
    description:
      'Days for which overwritten and deleted commits are kept, so that the push can be undone.',
    accepts: 'days from 0 to 3650',
    fallback: '30',
    parse: wholeNumber(0, 3650),
  } satisfies Setting<number>,
}
