import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { Db } from '#database/schema.ts'
import type { OfAttempt } from '../run-job-store.ts'
import { listOutput, measureOutputs } from '../run-log-store.ts'

const piecesPerQuery = 64
const minTailLength = 4096

/**
 * Reads the outputs of the steps of an attempt, up to a size of its log. If they exceed `maxLength` together, only the end
 * of each.
 */
export async function readOutputs(
  db: Db,
  log: OfAttempt,
  { maxLength, logBytes }: { maxLength: number; logBytes: number },
): Promise<Map<number, string>> {
  const sizes = await measureOutputs(db, log)
  const total = sizes.reduce((sum, { size }) => sum + size, 0)
  const isComplete = total <= maxLength
  const share = isComplete ? total : Math.max(minTailLength, Math.floor(maxLength / sizes.length))
  const tails = new Map(sizes.map(({ step }) => [step, createTail(share)]))
  for await (const { start, step, text } of pieces(db, log)) {
    if (start >= logBytes) break
    if (step !== null) tails.get(step)?.add(text)
  }
  return new Map([...tails].map(([step, tail]) => [step, tail.text()]))
}

/** Reads the end of a step's output. */
export async function readTail(
  db: Db,
  log: OfAttempt,
  step: number,
  length: number,
): Promise<string> {
  const tail = createTail(length)
  for await (const { text } of pieces(db, { ...log, step })) tail.add(text)
  return tail.text()
}

/** Yields the output of one step or of all steps, piece by piece. */
export async function* pieces(db: Db, log: OfAttempt & { step?: number | undefined }) {
  let after = -1
  for (;;) {
    const some = await listOutput(db, { ...log, after, limit: piecesPerQuery })
    yield* some
    if (some.length < piecesPerQuery) return
    after = some.at(-1)?.start ?? after
    // SQLite is synchronous, so this loop would block the event loop.
    await yieldToEventLoop()
  }
}

function createTail(length: number) {
  let parts: string[] = []
  let partsLength = 0
  return {
    add(text: string): void {
      parts.push(text)
      partsLength += text.length
      if (partsLength <= 2 * length) return
      // Copied by way of bytes: a slice alone would keep the whole string in memory.
      const tail = Buffer.from(parts.join('').slice(-length)).toString()
      parts = [tail]
      partsLength = tail.length
    },
    text: () => parts.join('').slice(-length),
  }
}
