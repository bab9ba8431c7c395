import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { Problem, toProblem } from '../../base/problem.ts'
import { hooksPath } from '../process/git-process.ts'
import type { RefUpdate } from '../refs/refs.ts'

/** Throws a Problem when the updates are not allowed. */
export type Authorize = (updates: RefUpdate[]) => Promise<void>

const lineMaxLength = 2048

/** Throws unless the hook can run: git silently ignores a hook that is missing or not executable. */
export async function assertHooks(): Promise<void> {
  const hook = join(hooksPath, 'pre-receive')
  await access(hook, constants.X_OK).catch((error) => {
    throw new Error(`The hook ${hook} is missing or not executable; reinstall svc.`, {
      cause: error,
    })
  })
}

/**
 * Authorizes a push for the pre-receive hook at the other end of a channel. The hook sends its input (githooks(5)):
 * a line `<before> <after> <ref>` for each update, then a NUL, which no ref name contains. An update that is not in
 * the push request fails the push.
 */
export async function answerHook(
  channel: Duplex,
  requested: RefUpdate[],
  authorize: Authorize,
): Promise<void> {
  const lines = await readLines(channel, requested.length).catch((error) => {
    const isUnexpected = !channel.destroyed
    // To the hook, a closed channel is a rejection.
    channel.destroy()
    if (isUnexpected) throw error
  })
  if (lines === undefined) return // The push ended before its hook ran.
  try {
    const byRef = new Map(requested.map((update) => [update.ref, update]))
    await authorize(lines.map((line) => toUpdate(line, byRef)))
    channel.write('ok\n')
  } catch (error) {
    const reason = toProblem(error).message
    channel.write(`${reason.replace(/^/gm, '! ')}\nno\n`)
    if (!(error instanceof Problem)) throw error
  }
}

async function readLines(channel: Duplex, maxLines: number): Promise<string[] | undefined> {
  const lines: string[] = []
  let rest = ''
  for await (const chunk of channel.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    for (const line of parts) {
      if (lines.push(line) > maxLines)
        throw new Error('The hook received more updates than the push requested.')
    }
    if (rest === '\0') return lines
    if (rest.length > lineMaxLength) throw new Error('The hook received a line that is too long.')
  }
  return undefined
}

// Git omits updates that it has found impossible, and never adds any, so every update must be a requested one.
function toUpdate(line: string, requested: Map<string, RefUpdate>): RefUpdate {
  const [before = '', after = '', ...name] = line.split(' ')
  const update = requested.get(name.join(' '))
  if (update?.before === before && update.after === after) return update
  throw new Error(`The hook received an update that the push did not request: ${line}`)
}
