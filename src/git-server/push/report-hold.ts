import { printableLine } from '#base/format.ts'
import { within } from '#base/timeouts.ts'
import type { GitProcess } from '#git/process/git-process.ts'
import type { ReportHold } from '#git/protocol/pipe-process.ts'
import { packet } from '#git/protocol/pkt-line.ts'
import type { PushRequest } from '#git/protocol/push-commands.ts'
import { splitReport } from '#git/protocol/push-report.ts'
import { readPushOptions, unknownOption } from './push-options.ts'

// Half of the minute without a byte after which proxies give up.
const finishMaxMs = 30_000
const finishedLater =
  'The push is stored. Its events and deliveries follow when the database is available again.'

/** Holds git's report back until the push is finalized: a client that sees a push succeed must find its events. */
export function holdReport(
  child: GitProcess,
  request: PushRequest,
  finalize: () => Promise<boolean>,
  advise: () => Promise<string[]>,
): ReportHold {
  const hasSideBands = request.capabilities.has('side-band-64k')
  const splitter = splitReport(hasSideBands)
  return {
    splitter,
    async release() {
      // Git reports after it has moved the refs; without a report, only its exit shows that.
      if (!splitter.hasBegun()) await child.ended
      const lines = await finishPush(request, finalize(), advise())
      return hasSideBands ? Buffer.concat(lines.map(notice)) : Buffer.alloc(0)
    },
  }
}

/** Waits for the end of a push, for a limited time; returns the last lines for the client's terminal. */
export async function finishPush(
  { options }: Pick<PushRequest, 'options'>,
  finalized: Promise<boolean>,
  advised: Promise<string[]>,
): Promise<string[]> {
  const finished = within(finishMaxMs, finalized).catch(() => false)
  // Advice is not worth a failure.
  const [isFinished, advice] = await Promise.all([finished, advised.catch(() => [])])
  const lines = readPushOptions(options).unknown.map(unknownOption)
  lines.push(...advice)
  return isFinished ? lines : [...lines, finishedLater]
}

/** A line on the client's terminal: band 2 of "side-band". */
export function notice(line: string): Buffer {
  return packet(`\x02${printableLine(line)}\n`)
}
