import { printable } from '../../base/format.ts'
import type { Log } from '../../base/log.ts'
import type { Problem } from '../../base/problem.ts'
import { within } from '../../base/timeouts.ts'
import type { FreeSpace } from '../../config/free-space.ts'
import type { PlainSettings } from '../../config/settings.ts'
import type { Via } from '../../database/schema.ts'
import type { Git } from '../../git/process/git-process.ts'
import { answerHook } from '../../git/protocol/hook-channel.ts'
import { flushPacket, packet } from '../../git/protocol/pkt-line.ts'
import { readPushRequest } from '../../git/protocol/push-commands.ts'
import { splitReport } from '../../git/protocol/push-report.ts'
import { type Body, limited } from '../../git/protocol/request-body.ts'
import type { RepositoryHolds } from '../../repositories/repository-holds.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import {
  answerEmpty,
  type GitRequest,
  keysOf,
  type RequestOutcome,
} from '../requests/git-request.ts'
import { respond, watchRequest } from '../requests/respond.ts'
import { connectivityShortcut } from './connectivity-shortcut.ts'
import { watchFastForward } from './fast-forward.ts'
import type { Push, Pushes } from './pushes.ts'

type Dependencies = {
  git: Git
  pushes: Pick<Pushes, 'authorize' | 'finalize'>
  via: Via
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  turns: GitLimiters
  freeSpace: FreeSpace
  settings: PlainSettings
  stallMs: number
  log: Log
}

// Proxies give up after a minute without a byte.
const finishMaxMs = 30_000
const finishedLater =
  'The push is stored. Its events and deliveries follow as soon as the database takes them.'
const shownOptionMaxLength = 100

/** Has git take what clients push. */
export function createReceivePack(dependencies: Dependencies) {
  const { git, pushes, via, repositoryHolds, turns, freeSpace, settings, stallMs, log } =
    dependencies

  return {
    /**
     * Answers a push, judged when git's hook asks and finished before the client has git's report. With `mayBeEmpty`
     * a request that changes nothing is answered with nothing.
     */
    async push(request: GitRequest, body: Body, mayBeEmpty: boolean): Promise<RequestOutcome> {
      const { repository, principal, answer } = request
      await freeSpace.require()
      using watched = watchRequest(request, stallMs)
      using _turn = await turns.push.acquire(keysOf(request), watched.signal)
      const input = limited(body, { ...watched, maxBytes: settings.pushMaxBytes })
      // What is refused is not read to its end: the rest of the body is left to whoever holds the connection.
      using _input = { [Symbol.dispose]: () => void input.return().catch(() => {}) }
      const asked = await readPushRequest(input, settings.pushMaxRefs)
      const { updates, refusal } = asked
      if (refusal) return refuse(request, { ...asked, refusal })
      if (mayBeEmpty && updates.length === 0) return answerEmpty(answer)
      const { whole, config } = await connectivityShortcut(repository.path, asked)
      await using hold = await repositoryHolds.acquire(repository.id)
      await using child = await git.startPush(repository.path, { ...request, config })
      hold.watch(child.ended)
      const push: Push = { principal, repository, via }
      const hasSideBands = asked.capabilities.has('side-band-64k')
      const judged = answerHook(child.channel, updates, (given) =>
        pushes.authorize(push, given),
      ).catch((error) => log.error({ err: error }, 'a push could not be judged'))
      // Known before the hook asks: git has then had the whole pack.
      const watchedBody = watchFastForward(whole, asked, () => {
        push.isFastForward = true
      })
      let finalized: Promise<boolean> | undefined
      const finalize = () => {
        finalized ??= judged.then(() => pushes.finalize(push))
        return finalized
      }
      // Whoever learns that a push is done must find its events: the report waits for them.
      const splitter = splitReport(hasSideBands)
      const reportHold = {
        splitter,
        async release() {
          // A report says that git has moved the refs; without one, only its end does.
          if (!splitter.hasBegun()) await child.ended
          const isFinished = await within(finishMaxMs, finalize()).catch(() => false)
          if (!hasSideBands) return Buffer.alloc(0)
          const lines = asked.options.map(unknownOption)
          return Buffer.concat([...lines, ...(isFinished ? [] : [finishedLater])].map(notice))
        },
      }
      try {
        return await respond(
          watched,
          { child, input: watchedBody, onSaid: answer.onSaid, hold: reportHold },
          log,
        )
      } finally {
        // A client that has gone does not stop a push that was allowed: git is given the time to end it.
        if (push.id === undefined) await child[Symbol.asyncDispose]()
        await child.ended
        await finalize()
      }
    },
  }
}

function unknownOption(option: string): string {
  const characters = Array.from(printable(option))
  const start = characters.slice(0, shownOptionMaxLength).join('')
  const shown = characters.length > shownOptionMaxLength ? `${start}…` : start
  return `The push option "${shown}" is unknown and has no effect: no push options are supported.`
}

/** A line on the client's terminal: band 2 of "side-band". */
function notice(line: string): Buffer {
  return packet(`\x02${line}\n`)
}

// Told as Git's own fatal errors are (pack-protocol, "side-band"), which its client shows; older ones get the status.
async function refuse(
  { answer, sendsAllFirst }: GitRequest,
  { whole, capabilities, refusal }: { whole: Body; capabilities: Set<string>; refusal: Problem },
): Promise<RequestOutcome> {
  if (!capabilities.has('side-band-64k')) throw refusal
  if (sendsAllFirst) {
    for await (const _ of whole) {
    }
  }
  answer.begin()
  answer.output.write(Buffer.concat([packet(`\x03${refusal.message}`), flushPacket]))
  return 1
}
