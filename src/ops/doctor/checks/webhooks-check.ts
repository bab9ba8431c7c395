import { apiPathOfScope } from '#repositories/scopes.ts'
import type { Check } from '../check.ts'
import { findOldestPending, listDisabledWebhooks, readVersion } from '../doctor-store.ts'
import { type Finding, firstOf, ok, orOk, warning } from '../finding.ts'

/** The first schema version with webhooks of this form. */
const webhooksVersion = 52
const stuckMs = 10 * 60_000

// Failed deliveries are retried, and are not a fault of this server.
const noneDisabled = 'No webhook was disabled because all its deliveries failed'

const allWell = (isServed: boolean) =>
  isServed ? `${noneDisabled}, and no delivery is overdue.` : `${noneDisabled}.`

/** Checks for disabled webhooks and overdue deliveries. */
export const webhooksCheck: Check = {
  id: 'webhooks',
  title: 'disabled webhooks and overdue deliveries',
  async run(context) {
    const version = (await context.read(readVersion)) ?? 0
    if (version < webhooksVersion) return ok('There are none.')
    const disabled = (await context.read(listDisabledWebhooks)).map(
      ({ id, scopeKind, scopeName, disabledAt }) =>
        warning(
          `The webhook ${id} of ${scopeName} is disabled since ${new Date(disabledAt ?? 0).toISOString()}, because all its deliveries failed for days.`,
          `When the receiver works again, send {"enabled": true} by PATCH to ${apiPathOfScope(scopeKind, scopeName)}/webhooks/${id}, and replay the missed deliveries.`,
        ),
    )
    const findings: Finding[] = firstOf(disabled)
    const dueAt = context.isServed() ? await context.read(findOldestPending) : null
    if (dueAt !== null && dueAt < Date.now() - stuckMs) {
      findings.push(
        warning(
          `A delivery has been due since ${new Date(dueAt).toISOString()} and was not sent.`,
          'Find the reason in the log of the service ("deliveries"), then restart the service: it resumes deliveries.',
        ),
      )
    }
    return orOk(findings, allWell(context.isServed()))
  },
}
