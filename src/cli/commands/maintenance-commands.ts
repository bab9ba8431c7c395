import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '#app.ts'
import { toSize } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import type { MaintenanceResult } from '#ops/maintenance/maintenance-requests.ts'
import { localPrincipal } from './local.ts'
import type { Terminal } from './terminal.ts'

type Options = { all?: boolean; full?: boolean; json?: boolean }

const pollIntervalMs = 200

/** `svc repos maintain` */
export async function maintainRepositories(
  app: App,
  name: string | undefined,
  { all, full, json }: Options,
  { out }: Terminal,
) {
  if ((name === undefined) !== (all === true)) throw new Error('Name one repository, or use --all.')
  const { repositories, maintenanceRequests } = app
  const selected =
    name === undefined
      ? await repositories.list(localPrincipal, { after: '', limit: undefined })
      : [await repositories.open(localPrincipal, name, 'repo:write')]
  for (const { id } of selected) await maintenanceRequests.request(id, full ? 'full' : 'quick')
  const outcomes: (MaintenanceResult & { name: string })[] = []
  for (const { id, name } of selected) {
    const outcome = { name, ...(await waitForOutcome(app, id)) }
    outcomes.push(outcome)
    if (!json) out(toLine(outcome))
  }
  if (json) out(toSafeJson(name === undefined ? outcomes : outcomes[0]))
  const failed = outcomes.filter((outcome) => 'fault' in outcome).length
  if (failed > 0) throw new Error(`${failed} of ${outcomes.length} could not be maintained.`)
}

// A running server does the work, as it alone knows the running pushes.
async function waitForOutcome(app: App, id: string): Promise<MaintenanceResult> {
  for (;;) {
    const outcome = await app.maintenanceRequests.findResult(id)
    if (outcome) return outcome
    if (!(await app.maintainInProcess())) await sleep(pollIntervalMs)
  }
}

function toLine({ name, ...outcome }: MaintenanceResult & { name: string }): string {
  if ('fault' in outcome) return `${name}: ${outcome.fault}\n`
  const { packsBefore, packsAfter, bytesBefore, bytesAfter, ms } = outcome.report
  const before = `${toPacks(packsBefore)} of ${toSize(bytesBefore)}`
  return `${name}: ${before}, now ${toPacks(packsAfter)} of ${toSize(bytesAfter)} (${ms / 1000} s)\n`
}

function toPacks(count: number): string {
  return count === 1 ? '1 pack' : `${count} packs`
}
