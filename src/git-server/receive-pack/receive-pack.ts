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
  type GitRequest,
  keysOf,
  type RequestOutcome,
  respondEmpty,
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
  limiters: GitLimiters
  freeSpace: FreeSpace
  settings: PlainSettings
  stallMs: number
  log: Log
}

// Proxies give up after a minute without a byte.
const finishMaxMs = 30_000
const finishedLater =
  'The push is stored. Its events and deliveries follow when the database is available again.'
const shownOptionMaxLength = 100

/** Serves pushes. */
export function createReceivePack(dependencies: Dependencies) {
  const { git, pushes, via, repositoryHolds, limiters, freeSpace, settings, stallMs, log } =
    dependencies

  return {
    /**
     * Serves a push: authorized when git's hook runs, and finalized before the client gets git's report. With
     * `mayBeEmpty` a request without updates gets an empty response.
     */
    async push(request: GitRequest, body: Body, mayBeEmpty: boolean): Promise<RequestOutcome> {
      const { repository, principal, response } = request
      await freeSpace.require()
      using watched = watchRequest(request, stallMs)
      using _permit = await limiters.push.acquire(keysOf(request), watched.signal)
      const input = limited(body, { ...watched, maxBytes: settings.pushMaxBytes })
      // The body of a refused push is not read to its end here; the transport discards the rest.
      using _input = { [Symbol.dispose]: () => void input.return().catch(() => {}) }
      const pushRequest = await readPushRequest(input, settings.pushMaxRefs)
      const { updates, refusal } = pushRequest
      if (refusal) return refuse(request, { ...pushRequest, refusal })
      if (mayBeEmpty && updates.length === 0) return respondEmpty(response)
      const { whole, config } = await connectivityShortcut(repository.path, pushRequest)
      await using hold = await repositoryHolds.acquire(repository.id)
      await using child = await git.startPush(repository.path, { ...request, config })
      hold.watch(child.ended)
      const push: Push = { principal, repository, via }
      const hasSideBands = pushRequest.capabilities.has('side-band-64k')
      const authorized = answerHook(child.channel, updates, (given) =>
        pushes.authorize(push, given),
      ).catch((error) => log.error({ err: error }, 'push authorization failed'))
      // Known before the hook runs: git has read the whole pack by then.
      const watchedBody = watchFastForward(whole, pushRequest, () => {
        push.isFastForward = true
      })
      let finalized: Promise<boolean> | undefined
      const finalize = () => {
        finalized ??= authorized.then(() => pushes.finalize(push))
        return finalized
      }
      // The report waits for the events: a client that sees a push succeed must find them.
      const splitter = splitReport(hasSideBands)
      const reportHold = {
        splitter,
        async release() {
          // Git reports after it has moved the refs; without a report, only its exit shows that.
          if (!splitter.hasBegun()) await child.ended
          const isFinished = await within(finishMaxMs, finalize()).catch(() => false)
          if (!hasSideBands) return Buffer.alloc(0)
          const lines = pushRequest.options.map(unknownOption)
          return Buffer.concat([...lines, ...(isFinished ? [] : [finishedLater])].map(notice))
        },
      }
      try {
        return await respond(
          watched,
          { child, input: watchedBody, onComplete: response.onComplete, hold: reportHold },
          log,
        )
      } finally {
        // A client that disconnects does not stop an authorized push: git is given time to complete it.
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
  return `The push option "${shown}" has no effect: push options are not supported.`
}

/** A line on the client's terminal: band 2 of "side-band". */
function notice(line: string): Buffer {
  return packet(`\x02${line}\n`)
}

// Sent as a fatal error of Git (pack-protocol, "side-band"), which clients show; clients without side-band get the status.
async function refuse(
  { response, sendsAllFirst }: GitRequest,
  { whole, capabilities, refusal }: { whole: Body; capabilities: Set<string>; refusal: Problem },
): Promise<RequestOutcome> {
  if (!capabilities.has('side-band-64k')) throw refusal
  if (sendsAllFirst) {
    for await (const _ of whole) {
    }
  }
  response.begin()
  response.output.write(Buffer.concat([packet(`\x03${refusal.message}`), flushPacket]))
  return 1
}
