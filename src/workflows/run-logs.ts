import { Readable } from 'node:stream'
import { Problem } from '../base/problem.ts'
import type { Notifier } from '../concurrency/notifier.ts'
import type { Database } from '../database/database.ts'
import type { Db, RunLogRow, RunRow } from '../database/schema.ts'
import { toServerSentEvent } from '../http/server-sent-events.ts'
import { renderPiece } from '../workflow-engine/render-log.ts'
import { hasStep } from './run-job-store.ts'
import { insertLog, listLog } from './run-log-store.ts'
import { pieces } from './run-outputs.ts'
import { findRunById, listAttempts, updateRun } from './run-store.ts'

/** A piece of a log that is to be added; `prefix` stands before each of its lines. */
export type Piece = Pick<RunLogRow, 'step' | 'prefix' | 'text'>

type Log = { runId: string; attempt: number }

// More than any run of usual settings can write; a runner that sends more is not listened to.
const logMaxBytes = 512 * 1024 * 1024
const piecesAtOnce = 64
const followMs = 15_000

/** Adds to the log of a run's present attempt, in a transaction that has changed the run's row; the bytes that it then has. */
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

/** Logs as streams of bytes, whole or from an offset on, and followed while they grow. */
export function createLogReader({ db, changes }: { db: Database; changes: Notifier }) {
  async function* read(log: Log, from: number): AsyncGenerator<Buffer, number, undefined> {
    let offset = from
    for (;;) {
      const some = await listLog(db, { ...log, from: offset, limit: piecesAtOnce })
      for (const piece of some) {
        // An offset may be within a piece, be it that somebody has asked for that.
        const bytes = Buffer.from(renderPiece(piece)).subarray(offset - Number(piece.start))
        offset += bytes.length
        yield bytes
      }
      if (some.length < piecesAtOnce) return offset
    }
  }

  async function* readStep(log: Log, step: number, from: number) {
    let left = from
    for await (const { text } of pieces(db, { ...log, step })) {
      const bytes = Buffer.from(text)
      yield bytes.subarray(left)
      left = Math.max(0, left - bytes.length)
    }
  }

  /** Whether an attempt has ended, and then its conclusion. */
  async function endOf({ runId, attempt }: Log): Promise<string | undefined> {
    const run = await findRunById(db, runId)
    if (!run) return 'deleted'
    if (run.attempt === attempt)
      return run.status === 'completed' ? (run.conclusion ?? '') : undefined
    const former = await listAttempts(db, runId)
    return former.find((one) => one.attempt === attempt)?.conclusion ?? 'deleted'
  }

  /** As server-sent events (HTML Living Standard, section 9.2): `id` is the offset after each, `end` is the last one. */
  async function* follow(log: Log, from: number, signal: AbortSignal) {
    let offset = from
    // The head of the answer goes out with the first bytes, and a run may be quiet for long.
    yield ': the log follows\n\n'
    while (!signal.aborted) {
      // Asked first: what is written before the end is read after it.
      const end = await endOf(log)
      for await (const bytes of read(log, offset)) {
        offset += bytes.length
        yield toServerSentEvent({ id: offset, data: bytes.toString('utf8') })
      }
      if (end !== undefined) {
        yield toServerSentEvent({
          id: offset,
          event: 'end',
          data: JSON.stringify({ conclusion: end }),
        })
        return
      }
      const deadline = performance.now() + followMs
      const seen = offset
      const hasMore = await changes.until(log.runId, { deadline, signal }, async () => {
        const [next] = await listLog(db, { ...log, from: seen, limit: 1 })
        return next || (await endOf(log)) !== undefined ? true : undefined
      })
      // Keeps proxies from taking silence for an end.
      if (!hasMore) yield ': nothing new\n\n'
    }
  }

  return {
    whole: (log: Log, from: number) => Readable.from(read(log, from)),
    followed: (log: Log, from: number, signal: AbortSignal) =>
      Readable.from(follow(log, from, signal)),
    /** What one step wrote, from an offset on, without what the log has around it. Throws `run_not_found`. */
    async step(log: Log, step: number, from: number) {
      if (!(await hasStep(db, { ...log, step }))) {
        const detail = `Attempt ${log.attempt} of the run has no step ${step} so far; the run lists its steps by their \`number\`.`
        throw new Problem('run_not_found', detail)
      }
      return Readable.from(readStep(log, step, from))
    },
  }
}
