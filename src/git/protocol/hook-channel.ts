import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { Problem, toProblem } from '../../base/problem.ts'
import { hooksPath } from '../process/git-process.ts'
import type { RefUpdate } from '../refs/refs.ts'

/** Throws a Problem for updates that are refused. */
export type Authorize = (updates: RefUpdate[]) => Promise<void>

const lineMaxLength = 2048

/** Refuses to start without a working hook: git silently ignores one that is missing or not executable. */
export async function assertHooks(): Promise<void> {
  const hook = join(hooksPath, 'pre-receive')
  await access(hook, constants.X_OK).catch((error) => {
    throw new Error(`The hook ${hook} is missing or not executable; reinstall svc.`, {
      cause: error,
    })
  })
}

/**
 * Answers the pre-receive hook at the other end of a channel. The hook sends what pre-receive is given
 * (githooks(5)): a line `<before> <after> <ref>` for each update, then a NUL, which no ref name can
 * hold. Anything that is not among the updates that the push asked for refuses it.
 */
export async function answerHook(
  channel: Duplex,
  asked: RefUpdate[],
  authorize: Authorize,
): Promise<void> {
  const lines = await readLines(channel, asked.length).catch((error) => {
    const isFault = !channel.destroyed
    // The hook takes a closed channel for a refusal.
    channel.destroy()
    if (isFault) throw error
  })
  if (lines === undefined) return // The push ended before it came to the hook.
  try {
    const byRef = new Map(asked.map((update) => [update.ref, update]))
    await authorize(lines.map((line) => toUpdate(line, byRef)))
    channel.write('ok\n')
  } catch (error) {
    const reason = toProblem(error).message
    channel.write(`${reason.replace(/^/gm, '! ')}\nno\n`)
    if (!(error instanceof Problem)) throw error
  }
}

async function readLines(channel: Duplex, most: number): Promise<string[] | undefined> {
  const lines: string[] = []
  let rest = ''
  for await (const chunk of channel.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    for (const line of parts) {
      if (lines.push(line) > most)
        throw new Error('The hook was given more than the push asked for.')
    }
    if (rest === '\0') return lines
    if (rest.length > lineMaxLength) throw new Error('The hook was given a line that is too long.')
  }
  return undefined
}

// Git leaves out updates that it has found impossible, and can add none: what is judged is what was asked.
function toUpdate(line: string, asked: Map<string, RefUpdate>): RefUpdate {
  const [before = '', after = '', ...name] = line.split(' ')
  const update = asked.get(name.join(' '))
  if (update?.before === before && update.after === after) return update
  throw new Error(`The hook was given an update that the push did not ask for: ${line}`)
}
