import type { RunShellBytesRow, RunShellRow } from '#database/run-shell-schema.ts'
import type { Db } from '#database/schema.ts'

export type Direction = 'input' | 'output'

type OfDirection = { id: string; direction: Direction }

/** How many bytes of a direction were received, and how many of them were read. */
export function progressOf(shell: RunShellRow, direction: Direction) {
  return direction === 'input'
    ? { size: shell.inputSize, read: shell.inputRead }
    : { size: shell.outputSize, read: shell.outputRead }
}

/** Appends bytes at an offset; false when the stream does not end there, or the shell has ended. */
export async function appendBytes(
  tx: Db,
  {
    id,
    direction,
    start,
    size,
    sealedBytes,
  }: OfDirection & { start: number; size: number; sealedBytes: Uint8Array },
): Promise<boolean> {
  const end = start + size
  const row = await tx
    .updateTable('runShells')
    .set(direction === 'input' ? { inputSize: end } : { outputSize: end })
    .where('id', '=', id)
    .where(direction === 'input' ? 'inputSize' : 'outputSize', '=', start)
    .where('endedAt', 'is', null)
    .returning('id')
    .executeTakeFirst()
  if (!row) return false
  await tx
    .insertInto('runShellBytes')
    .values({ shellId: id, direction, start, sealedBytes })
    .execute()
  return true
}

/** Deletes the bytes before an offset, which their reader has. */
export async function discardBytes(
  tx: Db,
  { id, direction, before }: OfDirection & { before: number },
): Promise<void> {
  await tx
    .updateTable('runShells')
    .set(direction === 'input' ? { inputRead: before } : { outputRead: before })
    .where('id', '=', id)
    .execute()
  await tx
    .deleteFrom('runShellBytes')
    .where('shellId', '=', id)
    .where('direction', '=', direction)
    .where('start', '<', before)
    .execute()
}

/** Lists the pieces from an offset on, in order. */
export function listPieces(
  db: Db,
  { id, direction, from, limit }: OfDirection & { from: number; limit: number },
): Promise<Pick<RunShellBytesRow, 'start' | 'sealedBytes'>[]> {
  return db
    .selectFrom('runShellBytes')
    .select(['start', 'sealedBytes'])
    .where('shellId', '=', id)
    .where('direction', '=', direction)
    .where('start', '>=', from)
    .orderBy('start')
    .limit(limit)
    .execute()
}
