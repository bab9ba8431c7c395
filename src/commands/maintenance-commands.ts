import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '../app.ts'
import { toSize } from '../base/format.ts'
import type { Answer } from '../maintenance/maintenance-requests.ts'
import { localPrincipal } from './local.ts'
import { type Terminal, toJson } from './terminal.ts'

type Options = { all?: boolean; full?: boolean; json?: boolean }

const lookEveryMs = 200

/** `svc repos maintain` */
export async function maintainRepositories(
  app: App,
  name: string | undefined,
  { all, full, json }: Options,
  { out }: Terminal,
) {
  if ((name === undefined) !== (all === true))
    throw new Error('Name one repository, or give --all in place of a name.')
  const { repositories, maintenanceRequests } = app
  const chosen =
    name === undefined
      ? await repositories.list(localPrincipal, { after: '', limit: undefined })
      : [await repositories.open(localPrincipal, name, 'repo:write')]
  for (const { id } of chosen) await maintenanceRequests.ask(id, full ? 'full' : 'quick')
  const answers: (Answer & { name: string })[] = []
  for (const { id, name } of chosen) {
    const answer = { name, ...(await untilAnswered(app, id)) }
    answers.push(answer)
    if (!json) out(toLine(answer))
  }
  if (json) out(toJson(name === undefined ? answers : answers[0]))
  const failed = answers.filter((answer) => 'fault' in answer).length
  if (failed > 0) throw new Error(`${failed} of ${answers.length} could not be maintained.`)
}

// Where a server runs, it does the work: it alone knows who is pushing.
async function untilAnswered(app: App, id: string): Promise<Answer> {
  for (;;) {
    const answer = await app.maintenanceRequests.answer(id)
    if (answer) return answer
    if (!(await app.maintainHere())) await sleep(lookEveryMs)
  }
}

function toLine({ name, ...answer }: Answer & { name: string }): string {
  if ('fault' in answer) return `${name}: ${answer.fault}\n`
  const { packsBefore, packsAfter, bytesBefore, bytesAfter, ms } = answer.report
  const before = `${toPacks(packsBefore)} of ${toSize(bytesBefore)}`
  return `${name}: ${before}, now ${toPacks(packsAfter)} of ${toSize(bytesAfter)} (${ms / 1000} s)\n`
}

function toPacks(count: number): string {
  return count === 1 ? '1 pack' : `${count} packs`
}
