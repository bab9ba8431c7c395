import { setTimeout as sleep } from 'node:timers/promises'
import { localPrincipal } from '#access/principal.ts'
import type { App } from '#app.ts'
import { printable, toSize } from '#base/format.ts'
import { listAll } from '#base/list-all.ts'
import { toSafeJson } from '#base/safe-text.ts'
import type { MaintenanceResult } from '#ops/maintenance/maintenance-requests.ts'
import type { Rotated } from '#secrets/rotation.ts'
import { UsageError } from '../terminal/command-errors.ts'
import type { Terminal } from '../terminal/terminal.ts'

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
      ? await listAll('', (page) => repositories.list(localPrincipal, page))
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

/** `svc store adopt` */
export async function adoptInto(
  app: App,
  { json }: { json?: boolean },
  { out, err, interruption }: Terminal,
) {
  const { shared } = app.store
  if (!shared) {
    throw new UsageError('Set SVC_STORE to the store that repositories are to be moved into.')
  }
  const { adopted, refused, runFiles } = await app.adoptRepositories(shared, {
    report: (progress) => err(`${printable(progress)}\n`),
    signal: interruption(),
  })
  if (json) out(toSafeJson({ adopted, refused, runFiles }))
  else {
    out(`${adopted.length} ${adopted.length === 1 ? 'repository' : 'repositories'} moved.\n`)
    if (runFiles > 0) out(`${runFiles} artifacts and caches of runs copied.\n`)
    for (const { name, reason } of refused) out(`${name} was not moved: ${printable(reason)}.\n`)
  }
  if (refused.length > 0) {
    throw new Error('Correct or delete what was not moved (svc repos delete NAME), and repeat.')
  }
  if (!json && adopted.length > 0) {
    out(
      'The directories repositories/, deleted/ and run-files/ are no longer needed; delete them when everything works.\n',
    )
  }
}

type RotateOptions = { discardUnreadable?: boolean; yes?: boolean; json?: boolean }

const progressEvery = 100

/** `svc secrets rotate` */
export async function rotateSecrets(app: App, options: RotateOptions, terminal: Terminal) {
  const { out, err, progress, interruption } = terminal
  const report = (resealed: number) => {
    if (resealed % progressEvery === 0) progress(`Encrypted again: ${resealed}`)
  }
  const work = { report, signal: interruption() }
  const rotated = await app.rotation.rotate(work).finally(() => progress(''))
  const { resealed, unreadable } = rotated
  const discards = unreadable > 0 && options.discardUnreadable === true
  const discarded = discards ? await discard(app, rotated, options, terminal) : 0
  if (options.json) out(toSafeJson({ ...rotated, discarded }))
  else
    out(
      `Encrypted again with the first key: ${resealed}.${discards ? ` Deleted: ${discarded}.` : ''}\n`,
    )
  if (resealed > 0 && app.isServed()) {
    err('svc: A server is running. Restart it if it was started before the first key was set.\n')
  }
  if (unreadable === 0 || discards) return
  const [first] = rotated.named
  throw new Error(
    `${unreadable} cannot be decrypted: ${toNames(rotated)}; the first: ${first?.fault}. ` +
      'Add the old key after the new one, or delete these secrets with --discard-unreadable.',
  )
}

async function discard(
  { rotation, holdServer }: App,
  rotated: Rotated,
  { yes }: RotateOptions,
  { ask, interruption }: Terminal,
): Promise<number> {
  // A running server may have the key that is missing here.
  using _lock = await holdServer()
  if (ask && !yes) {
    const question = `No key decrypts ${toNames(rotated)}. Type yes to delete ${rotated.unreadable === 1 ? 'it' : 'them'}: `
    if ((await ask(question)).trim() !== 'yes') throw new Error('Nothing was deleted.')
  }
  const work = { discardsAs: localPrincipal, report: () => {}, signal: interruption() }
  return (await rotation.rotate(work)).discarded
}

function toNames({ named, unreadable }: Rotated): string {
  const names = named.map(({ repoName, name }) => `${repoName}/${name}`).join(', ')
  const more = unreadable - named.length
  return more > 0 ? `${names} and ${more} more` : names
}
