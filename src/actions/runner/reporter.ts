import { orAborted } from '#base/timeouts.ts'
import { reportMaxBytes, reportMaxEntries } from '../runner-api/transfer-limits.ts'
import type { RunEntry } from '../workflow-engine/plan.ts'
import type { RunConnection } from './run-connection.ts'
import { UnexpectedResponseError } from './server-client.ts'

/** With more bytes waiting, callers of `report` have to wait. */
const maxWaitingBytes = 1024 * 1024
const reportTimeoutMs = 30_000
const defaultBatchDelayMs = 40
// The JSON around the entries of a report.
const maxFrameBytes = 100

type Options = {
  connection: Pick<RunConnection, 'request'>
  onResponse: (cancel: string | null) => void
  /** Called when nothing more can be reported. */
  onError: (error: unknown) => void
  /** How long an entry waits for others before it is sent; the end of a run never waits. */
  batchDelayMs?: number
}

/**
 * Reports the entries of a run to the server in order, each once. One report is sent at a time; the next has all entries
 * that have arrived meanwhile.
 */
export function createReporter(options: Options) {
  const { connection, onResponse, onError, batchDelayMs = defaultBatchDelayMs } = options
  let waiting: { text: string; bytes: number }[] = []
  let waitingBytes = 0
  // The number of the first entry that the server does not have.
  let next = 0
  let sending: Promise<void> | undefined
  let hasEnded = false
  let isUrgent = false
  let sendNow = () => {}
  let workspace = Promise.withResolvers<void>()

  async function sendAll(): Promise<void> {
    await waitForMore()
    while (waiting.length > 0) await sendSome()
  }

  // A report costs the same for one entry and for many, so entries of nearly the same moment share one.
  async function waitForMore(): Promise<void> {
    if (batchDelayMs > 0 && !isUrgent) {
      const { promise, resolve } = Promise.withResolvers<void>()
      sendNow = resolve
      const timer = setTimeout(resolve, batchDelayMs)
      await promise
      clearTimeout(timer)
    }
    await new Promise(setImmediate)
  }

  async function sendSome(): Promise<void> {
    const count = countForReport(waiting)
    const texts = waiting.slice(0, count).map(({ text }) => text)
    const response = await connection.request({
      method: 'POST',
      path: '/report',
      body: `{"first":${next},"entries":[${texts.join(',')}]}`,
      timeoutMs: reportTimeoutMs,
    })
    if (hasEnded) return
    const { next: nextWanted, cancel } = toReported(response)
    const accepted = nextWanted - next
    if (accepted < 1 || accepted > count) {
      throw new UnexpectedResponseError(
        `The server expects entry ${nextWanted} of the run, but was sent ${next} to ${next + count - 1}.`,
      )
    }
    next = nextWanted
    for (const { bytes } of waiting.splice(0, accepted)) waitingBytes -= bytes
    if (waitingBytes <= maxWaitingBytes) releaseSpace()
    onResponse(cancel)
  }

  function releaseSpace(): void {
    workspace.resolve()
    workspace = Promise.withResolvers()
  }

  function start(): void {
    sending ??= sendAll()
      .catch((error) => {
        drop()
        onError(error)
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
    releaseSpace()
    sendNow()
  }

  return {
    /** Reports an entry. Callers must await a returned promise, because many entries are waiting. */
    report(entry: RunEntry): void | Promise<void> {
      if (hasEnded) return
      const text = toEntryText(entry, reportMaxBytes - maxFrameBytes)
      const bytes = Buffer.byteLength(text)
      waiting.push({ text, bytes })
      waitingBytes += bytes
      isUrgent ||= entry.kind === 'run-ended'
      start()
      if (isUrgent || waitingBytes > reportMaxBytes) sendNow()
      if (waitingBytes > maxWaitingBytes) return workspace.promise
    },

    /** Waits until the server has all entries, or nothing more can be reported. */
    async flush(signal: AbortSignal): Promise<void> {
      while (sending !== undefined) await orAborted(sending, signal)
    },

    /** Discards waiting entries and reports nothing more. */
    drop,
  }
}

/** How many of the first entries fit into one report. */
function countForReport(entries: { bytes: number }[]): number {
  let bytes = maxFrameBytes
  let count = 0
  for (const entry of entries) {
    bytes += entry.bytes + 1
    if (count > 0 && (bytes > reportMaxBytes || count === reportMaxEntries)) break
    count++
  }
  return count
}

function toReported(response: unknown): { next: number; cancel: string | null } {
  const { next, cancel } = Object(response)
  if (!Number.isSafeInteger(next)) {
    throw new UnexpectedResponseError('The response to a report has no number of the next entry.')
  }
  return { next, cancel: typeof cancel === 'string' ? cancel : null }
}

const truncationNote = ' … (the rest was too long to report)'
const minLength = 64

/**
 * An entry as JSON of at most `maxBytes`. Long texts, such as the summary of a step, are truncated. A job's outputs
 * are kept whole or not at all.
 */
export function toEntryText(entry: RunEntry, maxBytes: number): string {
  const whole = JSON.stringify(entry)
  if (fits(whole, maxBytes)) return whole
  const plain = entry.kind === 'job-ended' ? withoutOutputs(entry) : entry
  for (let length = maxBytes; length >= minLength; length /= 2) {
    const text = JSON.stringify(plain, (_, value) => truncate(value, length))
    if (fits(text, maxBytes)) return text
  }
  throw new Error(`An entry of the kind ${entry.kind} cannot be truncated to ${maxBytes} bytes.`)
}

function fits(text: string, maxBytes: number): boolean {
  // A UTF-16 code unit takes at most 3 bytes in UTF-8, so the usual case needs no counting.
  return text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes
}

function withoutOutputs(entry: RunEntry & { kind: 'job-ended' }): RunEntry {
  const note = 'The outputs of this job are too long to be kept for a later attempt.'
  return { ...entry, outputs: {}, fault: entry.fault ? `${entry.fault} ${note}` : note }
}

function truncate(value: unknown, length: number): unknown {
  if (typeof value !== 'string' || value.length <= length) return value
  return value.slice(0, length).toWellFormed() + truncationNote
}
