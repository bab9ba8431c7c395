import { Readable } from 'node:stream'
import { renderPiece } from '#actions/workflow-engine/output/render-log.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db, RunLogRow, RunRow } from '#database/schema.ts'
import { toServerSentEvent } from '#http/server-sent-events.ts'
import { hasStep, listNamedJobs, listSteps, type OfAttempt } from '../run-job-store.ts'
import { insertLog, listLog } from '../run-log-store.ts'
import { findRunById, listRunAttempts, updateRun } from '../run-store.ts'
import { pieces } from './run-outputs.ts'

/** Streams logs from an offset on, and can follow them while they grow. */
export type LogReader = {
  whole: (log: OfAttempt, from: number) => Readable
  followed: (log: OfAttempt, from: number, signal: AbortSignal) => Readable
  /** The same, with the step of each output, and the states of the jobs and steps whenever they change. */
  followedBySteps: (log: OfAttempt, from: number, signal: AbortSignal) => Readable
  /** Streams the output of one step from an offset on, without log prefixes. Throws `run_not_found`. */
  step: (log: OfAttempt, step: number, from: number) => Promise<Readable>
}

/** A piece to be added to a log; each of its lines is shown after `prefix`. */
export type Piece = Pick<RunLogRow, 'step' | 'prefix' | 'text'>

// More than a run with default settings can write; anything beyond it is dropped.
const logMaxBytes = 512 * 1024 * 1024
const piecesPerQuery = 64
const keepAliveMs = 15_000

/**
 * Appends pieces to the log of a run's current attempt. The transaction must already hold the lock on the run's row.
 * Returns the size of the log in bytes.
 */
export async function addLog(
  tx: Db,
  run: Pick<RunRow, 'id' | 'attempt' | 'logBytes' | 'status'>,
  pieces: Piece[],
): Promise<number> {
  let start = Number(run.logBytes)
  for (const piece of pieces) {
    const size = Buffer.byteLength(renderPiece(piece))
    if (size === 0 || start + size > logMaxBytes) continue
    await insertLog(tx, { runId: run.id, attempt: run.attempt, start, size, ...piece })
    start += size
  }
  const { id, attempt, status } = run
  if (start > run.logBytes) await updateRun(tx, { id, attempt, status }, { logBytes: start })
  return start
}

export function createLogReader({ db, changes }: { db: Database; changes: Notifier }): LogReader {
  async function* read(log: OfAttempt, from: number): AsyncGenerator<Buffer, number, undefined> {
    let offset = from
    for (;;) {
      const some = await listLog(db, { ...log, from: offset, limit: piecesPerQuery })
      for (const piece of some) {
        // A requested offset may lie within a piece.
        const bytes = Buffer.from(renderPiece(piece)).subarray(offset - Number(piece.start))
        offset += bytes.length
        yield bytes
      }
      if (some.length < piecesPerQuery) return offset
    }
  }

  async function* readStep(log: OfAttempt, step: number, from: number) {
    let left = from
    for await (const { text } of pieces(db, { ...log, step })) {
      const bytes = Buffer.from(text)
      yield bytes.subarray(left)
      left = Math.max(0, left - bytes.length)
    }
  }

  /** The conclusion of an attempt; undefined until it has completed. */
  async function conclusionOf({ runId, attempt }: OfAttempt): Promise<string | undefined> {
    const run = await findRunById(db, runId)
    if (!run) return 'deleted'
    if (run.attempt === attempt)
      return run.status === 'completed' ? (run.conclusion ?? '') : undefined
    const former = await listRunAttempts(db, runId)
    return former.find((one) => one.attempt === attempt)?.conclusion ?? 'deleted'
  }

  /** Yields the text of a log as events. */
  async function* readText(log: OfAttempt, from: number) {
    let offset = from
    for await (const bytes of read(log, from)) {
      offset += bytes.length
      yield { id: offset, data: bytes.toString('utf8') }
    }
  }

  /** Yields the pieces of a log as events `output`; the first one has the offset `from` in it. */
  async function* readPieces(log: OfAttempt, from: number) {
    let offset = from
    for (;;) {
      const some = await listLog(db, { ...log, from: offset, limit: piecesPerQuery })
      for (const { start, size, step, prefix, text } of some) {
        offset = Number(start) + Number(size)
        yield { id: offset, event: 'output', data: JSON.stringify({ step, prefix, text }) }
      }
      if (some.length < piecesPerQuery) return
    }
  }

  /** The states of the jobs and steps of an attempt as JSON. */
  async function readStates({ runId, attempt }: OfAttempt): Promise<string> {
    const of = [{ runId, attempt }]
    const [jobs, steps] = await Promise.all([
      listNamedJobs(db, of),
      listSteps(db, of, { tailLength: 0, summaryLength: 0 }),
    ])
    const names = new Map(jobs.map(({ job, name }) => [job, name]))
    return JSON.stringify({
      jobs: jobs.map(({ jobId: id, name, status, conclusion }) => ({
        id,
        name,
        status,
        conclusion,
      })),
      steps: steps.map(({ step: number, job, name, status, conclusion }) => {
        return { number, name, job: names.get(job), status, conclusion }
      }),
    })
  }

  /**
   * Yields server-sent events (HTML Living Standard, section 9.2) while a log grows: `id` is the offset after the event,
   * `end` comes last.
   */
  async function* follow(
    log: OfAttempt,
    { from, signal, isBySteps }: { from: number; signal: AbortSignal; isBySteps: boolean },
  ) {
    const readNew = isBySteps ? readPieces : readText
    let [offset, states] = [from, '']
    // The response headers are sent with the first bytes, and a run may be silent for long.
    yield ': the log follows\n\n'
    while (!signal.aborted) {
      // Read before the log, so that everything written before the end is still read.
      const end = await conclusionOf(log)
      const now = isBySteps ? await readStates(log) : states
      for await (const event of readNew(log, offset)) {
        offset = event.id
        yield toServerSentEvent(event)
      }
      if (now !== states) yield toServerSentEvent({ id: offset, event: 'state', data: now })
      states = now
      if (end !== undefined) {
        yield toServerSentEvent({
          id: offset,
          event: 'end',
          data: JSON.stringify({ conclusion: end }),
        })
        return
      }
      const deadline = performance.now() + keepAliveMs
      const seen = offset
      const hasMore = await changes.until(log.runId, { deadline, signal }, async () => {
        const [next] = await listLog(db, { ...log, from: seen, limit: 1 })
        if (next || (await conclusionOf(log)) !== undefined) return true
        return isBySteps && (await readStates(log)) !== states ? true : undefined
      })
      // Keeps proxies from closing an idle connection.
      if (!hasMore) yield ': nothing new\n\n'
    }
  }

  return {
    whole: (log, from) => Readable.from(read(log, from)),
    followed: (log, from, signal) => Readable.from(follow(log, { from, signal, isBySteps: false })),
    followedBySteps: (log, from, signal) =>
      Readable.from(follow(log, { from, signal, isBySteps: true })),
    async step(log, step, from) {
      if (!(await hasStep(db, { ...log, step }))) {
        const detail = `Attempt ${log.attempt} of the run has no step ${step} yet; use the \`number\` of a step of the run.`
        throw new Problem('run_not_found', detail)
      }
      return Readable.from(readStep(log, step, from))
    },
  }
}
