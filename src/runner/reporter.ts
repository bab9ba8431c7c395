import { orAborted } from '../base/timeouts.ts'
import { reportMaxBytes, reportMaxEntries } from '../runner-api/report-limits.ts'
import type { RunEntry } from '../workflow-engine/plan.ts'
import { toEntryText } from './entry-text.ts'
import type { RunConnection } from './run-connection.ts'
import { UnexpectedResponseError } from './server-client.ts'

/** Bytes that wait before whoever reports is made to wait. */
const waitingMaxBytes = 1024 * 1024
const reportTimeoutMs = 30_000
const usualGatherMs = 40
// What a report has around its entries.
const frameMaxBytes = 100

type Options = {
  connection: Pick<RunConnection, 'ask'>
  /** Called with what the server answers. */
  onAnswer: (cancel: string | null) => void
  /** Called when nothing more can be reported, and why. */
  onFault: (error: unknown) => void
  /** How long what is told first waits for more; but for the end of a run, for which somebody waits. */
  gatherMs?: number
}

/**
 * Tells the server the entries of a run in their order, each once: one report at a time, which takes along
 * all that came while the one before was under way.
 */
export function createReporter(options: Options) {
  const { connection, onAnswer, onFault, gatherMs = usualGatherMs } = options
  let waiting: { text: string; bytes: number }[] = []
  let waitingBytes = 0
  // The number of the first entry that the server does not have.
  let next = 0
  let sending: Promise<void> | undefined
  let hasEnded = false
  let isUrgent = false
  let hurry = () => {}
  let room = Promise.withResolvers<void>()

  async function sendAll(): Promise<void> {
    await gather()
    while (waiting.length > 0) await sendSome()
  }

  // A report costs both sides the same for one entry and for many: what is told at nearly one moment goes together.
  async function gather(): Promise<void> {
    if (gatherMs > 0 && !isUrgent) {
      const { promise, resolve } = Promise.withResolvers<void>()
      hurry = resolve
      const timer = setTimeout(resolve, gatherMs)
      await promise
      clearTimeout(timer)
    }
    await new Promise(setImmediate)
  }

  async function sendSome(): Promise<void> {
    const count = countForReport(waiting)
    const texts = waiting.slice(0, count).map(({ text }) => text)
    const answer = await connection.ask({
      method: 'POST',
      path: '/report',
      body: `{"first":${next},"entries":[${texts.join(',')}]}`,
      timeoutMs: reportTimeoutMs,
    })
    if (hasEnded) return
    const { next: wanted, cancel } = toReported(answer)
    const taken = wanted - next
    if (taken < 1 || taken > count) {
      throw new UnexpectedResponseError(
        `The server expects entry ${wanted} of the run, and was told ${next} to ${next + count - 1}.`,
      )
    }
    next = wanted
    for (const { bytes } of waiting.splice(0, taken)) waitingBytes -= bytes
    if (waitingBytes <= waitingMaxBytes) makeWorkspace()
    onAnswer(cancel)
  }

  function makeWorkspace(): void {
    room.resolve()
    room = Promise.withResolvers()
  }

  function start(): void {
    sending ??= sendAll()
      .catch((error) => {
        drop()
        onFault(error)
      })
      .finally(() => {
        sending = undefined
        if (waiting.length > 0) start()
      })
  }

  function drop(): void {
    hasEnded = true
    waiting = []
    waitingBytes = 0
    makeWorkspace()
    hurry()
  }

  return {
    /** Reports an entry; a promise asks to wait, because much has not been told yet. */
    report(entry: RunEntry): void | Promise<void> {
      if (hasEnded) return
      const text = toEntryText(entry, reportMaxBytes - frameMaxBytes)
      const bytes = Buffer.byteLength(text)
      waiting.push({ text, bytes })
      waitingBytes += bytes
      isUrgent ||= entry.kind === 'run-ended'
      start()
      if (isUrgent || waitingBytes > reportMaxBytes) hurry()
      if (waitingBytes > waitingMaxBytes) return room.promise
    },

    /** Waits until the server has all of it, or nothing more can be reported. */
    async flush(signal: AbortSignal): Promise<void> {
      while (sending !== undefined) await orAborted(sending, signal)
    },

    /** Reports nothing more, not even what waits. */
    drop,
  }
}

/** How many of the first entries go into one report. */
function countForReport(entries: { bytes: number }[]): number {
  let bytes = frameMaxBytes
  let count = 0
  for (const entry of entries) {
    bytes += entry.bytes + 1
    if (count > 0 && (bytes > reportMaxBytes || count === reportMaxEntries)) break
    count++
  }
  return count
}

function toReported(answer: unknown): { next: number; cancel: string | null } {
  const { next, cancel } = Object(answer)
  if (!Number.isSafeInteger(next)) {
    throw new UnexpectedResponseError('The server does not say which entry it expects next.')
  }
  return { next, cancel: typeof cancel === 'string' ? cancel : null }
}
