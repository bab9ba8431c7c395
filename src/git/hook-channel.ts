import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { Problem } from '../base/problem.ts'
import { hooksPath } from './git-process.ts'
import type { RefUpdate } from './refs.ts'

/** Throws a Problem for updates that are refused. */
export type Judge = (updates: RefUpdate[]) => Promise<void>

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
 * (githooks(5)): a line `<before> <after> <ref>` for each update, then an empty line.
 */
export async function answerHook(channel: Duplex, maxUpdates: number, judge: Judge): Promise<void> {
  const lines = await readLines(channel, maxUpdates).catch((error) => {
    if (!channel.destroyed) throw error
  })
  if (lines === undefined) return // The push ended before it came to the hook.
  try {
    if (lines === 'too many') {
      throw new Problem(
        'too_many_ref_updates',
        `A push may change at most ${maxUpdates} refs; push them in parts.`,
      )
    }
    await judge(lines.map(toUpdate))
    channel.write('ok\n')
  } catch (error) {
    const reason =
      error instanceof Problem ? error.message : 'The server failed; nothing was changed.'
    channel.write(`${reason.replace(/^/gm, '! ')}\nno\n`)
    if (!(error instanceof Problem)) throw error
  }
}

async function readLines(
  channel: Duplex,
  most: number,
): Promise<string[] | 'too many' | undefined> {
  const lines: string[] = []
  let tooMany = false
  let rest = ''
  for await (const chunk of channel.setEncoding('latin1').iterator({ destroyOnReturn: false })) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    for (const line of parts) {
      if (line === '') return tooMany ? 'too many' : lines
      if (lines.length < most) lines.push(line)
      else tooMany = true
    }
    if (rest.length > lineMaxLength) return undefined
  }
  return undefined
}

function toUpdate(line: string): RefUpdate {
  const [before = '', after = '', ...name] = line.split(' ')
  return { before, after, ref: fromBytes(name.join(' ')) }
}

function fromBytes(latin1: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(latin1, 'latin1'))
  } catch {
    throw new Problem('ref_name_refused', 'A ref name in this push is not UTF-8.')
  }
}
