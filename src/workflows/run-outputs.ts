import { setImmediate as others } from 'node:timers/promises'
import type { Db } from '../database/schema.ts'
import { listOutput, measureOutputs } from './run-log-store.ts'

type Log = { runId: string; attempt: number }

const piecesAtOnce = 64
const leastLength = 4096

/** What the steps of an attempt wrote, together about `maxLength` at most: where that is too little, the end of each. */
export async function readOutputs(
  db: Db,
  log: Log,
  maxLength: number,
): Promise<Map<number, string>> {
  const sizes = await measureOutputs(db, log)
  const total = sizes.reduce((sum, { size }) => sum + size, 0)
  const isWhole = total <= maxLength
  const share = isWhole ? total : Math.max(leastLength, Math.floor(maxLength / sizes.length))
  const ends = new Map(sizes.map(({ step }) => [step, createEnd(share)]))
  for await (const { step, text } of pieces(db, log)) if (step !== null) ends.get(step)?.add(text)
  return new Map([...ends].map(([step, end]) => [step, end.text()]))
}

/** The end of what one step wrote. */
export async function readTail(db: Db, log: Log, step: number, length: number): Promise<string> {
  const end = createEnd(length)
  for await (const { text } of pieces(db, { ...log, step })) end.add(text)
  return end.text()
}

/** What steps wrote, of one or of all, piece by piece. */
export async function* pieces(db: Db, log: Log & { step?: number | undefined }) {
  let after = -1
  for (;;) {
    const some = await listOutput(db, { ...log, after, limit: piecesAtOnce })
    yield* some
    if (some.length < piecesAtOnce) return
    after = some.at(-1)?.start ?? after
    // SQLite answers at once, which would leave no turn to anybody else.
    await others()
  }
}

function createEnd(length: number) {
  let kept: string[] = []
  let keptLength = 0
  return {
    add(text: string): void {
      kept.push(text)
      keptLength += text.length
      if (keptLength <= 2 * length) return
      // By way of bytes: a slice by itself would hold on to all that it is of.
      const end = Buffer.from(kept.join('').slice(-length)).toString()
      kept = [end]
      keptLength = end.length
    },
    text: () => kept.join('').slice(-length),
  }
}
