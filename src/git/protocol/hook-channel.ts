import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { printable, printableLine } from '#base/format.ts'
import { Problem, toProblem } from '#base/problem.ts'
import { hooksPath } from '../process/git-process.ts'
import { fromGitId } from '../refs/ref-name.ts'
import type { RefUpdate } from '../refs/refs.ts'
import { flushPacket, packet } from './pkt-line.ts'

/**
 * Throws a Problem when the updates are not allowed. Returns what became of them when they were made already, and git
 * must only report that; or warnings. `quarantine` is the directory with the objects of the push, if it has any.
 */
export type Authorize = (
  updates: RefUpdate[],
  quarantine: string | undefined,
  onProgress: OnProgress,
) => Promise<PushResult | undefined>

/** Shows a line on the client's terminal at once. */
export type OnProgress = (line: string) => void

/** What became of a push. */
export type PushResult = {
  /**
   * By ref: why it is refused, or undefined, and the name of the ref that was made in its place. Without results, git moves
   * the refs.
   */
  results?: { ref: string; refusal: string | undefined; name?: string }[]
  /** Lines for the client's terminal. */
  warnings: string[]
  /** Further lines, at the end of the push. */
  lines?: string[]
  /** Whether nothing was changed, so that git must drop the objects. */
  isDeclined: boolean
}

const lineMaxLength = 2048

/** Throws unless the hooks can run: git silently ignores a hook that is missing or not executable. */
export async function assertHooks(): Promise<void> {
  for (const name of ['pre-receive', 'proc-receive']) {
    const hook = join(hooksPath, name)
    await access(hook, constants.X_OK).catch((error) => {
      throw new Error(`The hook ${hook} is missing or not executable; reinstall svc.`, {
        cause: error,
      })
    })
  }
}

/**
 * Authorizes a push for the hooks at the other end of a channel. The pre-receive hook sends its input (githooks(5)): a
 * line `<before> <after> <ref>` for each update, then the directory of the new objects between two NULs. An update that
 * is not in the push request fails the push. When the updates have been made, the proc-receive hook reports that to git.
 * `complete` makes them at that time, when the objects are in the repository, if `authorize` has not.
 */
export async function answerHook(
  channel: Duplex,
  requested: RefUpdate[],
  authorize: Authorize,
  complete?: () => Promise<PushResult>,
): Promise<void> {
  const question = await readQuestion(channel, requested.length).catch((error) => {
    const isOpen = !channel.destroyed
    // To the hook, a closed channel is a rejection.
    channel.destroy()
    // An error of the channel itself: git was killed.
    if (isOpen) throw error
  })
  if (question === undefined) return // The push ended before its hook ran.
  let result: PushResult | undefined
  try {
    const byRef = new Map(requested.map((update) => [update.ref, update]))
    const updates = question.lines.map((line) => toUpdate(line, byRef))
    const onProgress: OnProgress = (line) => channel.write(toNotice(line))
    result = await authorize(updates, question.quarantine || undefined, onProgress)
  } catch (error) {
    refuse(channel, toProblem(error).message)
    if (!(error instanceof Problem)) throw error
    return
  }
  if (result?.isDeclined) return refuse(channel, toReasons(result))
  const warnings = result?.warnings.map((line) => toNotice(`warning: ${line}`)) ?? []
  channel.write(`${warnings.join('')}ok\n`)
  if (result?.results) await report(channel, async () => result.results ?? [])
  else if (complete) await report(channel, () => resultsOf(complete, requested))
}

async function resultsOf(
  complete: () => Promise<PushResult>,
  requested: RefUpdate[],
): Promise<NonNullable<PushResult['results']>> {
  try {
    return (await complete()).results ?? []
  } catch (error) {
    const refusal = toProblem(error).message
    return requested.map(({ ref }) => ({ ref, refusal }))
  }
}

function refuse(channel: Duplex, reason: string): void {
  channel.write(`${toNotice(reason)}no\n`)
}

/** Lines that the hook shows on the client's terminal. Each has a prefix, so that no text is taken for a decision. */
function toNotice(text: string): string {
  return text
    .split('\n')
    .map((line) => `! ${printableLine(line)}\n`)
    .join('')
}

function toReasons({ results = [] }: PushResult): string {
  return results.map(({ ref, refusal }) => `${ref}: ${refusal ?? 'ok'}`).join('\n')
}

/** Gives the proc-receive hook its output: "proc-receive" in githooks(5). */
async function report(
  channel: Duplex,
  settle: () => Promise<NonNullable<PushResult['results']>>,
): Promise<void> {
  try {
    for await (const _ of channel.iterator({ destroyOnReturn: false })) break
  } catch (error) {
    // A git that was killed reports nothing.
    if (channel.destroyed) return
    throw error
  }
  const lines = (await settle()).flatMap(({ ref, refusal, name }) => {
    if (refusal !== undefined) return [packet(`ng ${ref} ${printable(refusal)}\n`)]
    return [`ok ${ref}\n`, ...(name === undefined ? [] : [`option refname ${name}\n`])].map(packet)
  })
  channel.end(Buffer.concat([packet('version=1\n'), flushPacket, ...lines, flushPacket]))
}

async function readQuestion(
  channel: Duplex,
  maxLines: number,
): Promise<{ lines: string[]; quarantine: string } | undefined> {
  const lines: string[] = []
  let rest = ''
  for await (const chunk of channel.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    for (const line of parts) {
      if (lines.push(line) > maxLines)
        throw new Error('The hook received more updates than the push requested.')
    }
    const [before, quarantine = '', after] = rest.split('\0')
    if (before === '' && after === '') return { lines, quarantine }
    if (rest.length > lineMaxLength) throw new Error('The hook received a line that is too long.')
  }
  return undefined
}

// Git omits updates that it has found impossible, and never adds any, so every update must be a requested one.
function toUpdate(line: string, requested: Map<string, RefUpdate>): RefUpdate {
  const [before = '', after = '', ...name] = line.split(' ')
  const update = requested.get(name.join(' '))
  if (update?.before === fromGitId(before) && update.after === fromGitId(after)) return update
  throw new Error(`The hook received an update that the push did not request: ${line}`)
}
