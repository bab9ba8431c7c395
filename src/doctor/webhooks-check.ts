import type { Check } from './check.ts'
import { findOldestDue, listGivenUp, readVersion } from './doctor-store.ts'
import { type Finding, firstOf, ok, orOk, warning } from './finding.ts'

/** The first version of the database that has webhooks. */
const webhooksVersion = 11
const stuckMs = 10 * 60_000

// What failed is tried again, and is no fault of this server.
const noneGivenUp = 'No webhook was disabled because all its deliveries failed'

const allWell = (isServed: boolean) =>
  isServed ? `${noneGivenUp}, and no delivery is overdue.` : `${noneGivenUp}.`

/** Whether somebody waits for deliveries that do not come. */
export const webhooksCheck: Check = {
  id: 'webhooks',
  title: 'webhooks that were given up, and deliveries that are overdue',
  async run(context) {
    const version = (await context.read(readVersion)) ?? 0
    if (version < webhooksVersion) return [ok('There are none.')]
    const givenUp = (await context.read(listGivenUp)).map(({ id, repositoryName, disabledAt }) =>
      warning(
        `The webhook ${id} of ${repositoryName} is disabled since ${new Date(disabledAt ?? 0).toISOString()}, as its receiver took nothing for days.`,
        `When the receiver is well, send {"enabled": true} by PATCH to /repos/${repositoryName}/webhooks/${id}, and have what it missed replayed.`,
      ),
    )
    const findings: Finding[] = firstOf(givenUp)
    const dueAt = context.isServed() ? await context.read(findOldestDue) : null
    if (dueAt !== null && dueAt < Date.now() - stuckMs) {
      findings.push(
        warning(
          `A delivery is due since ${new Date(dueAt).toISOString()} and has not been sent.`,
          'Look into the service\'s log for why ("deliveries"), then stop it and start it again: a start goes on with them.',
        ),
      )
    }
    return orOk(findings, allWell(context.isServed()))
  },
}
