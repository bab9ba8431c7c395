import { shellPieceMaxBytes } from '#actions/runner-api/transfer-limits.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import { Problem } from '#base/problem.ts'
import { Sensitive } from '#base/sensitive.ts'
import type { Database } from '#database/database.ts'
import type { RunShellRow } from '#database/schema.ts'
import { invalid } from '#http/validation.ts'
import type { SecretBinding, Vault } from '#secrets/vault/vault.ts'
import {
  appendBytes,
  type Direction,
  discardBytes,
  findShell,
  listPieces,
  progressOf,
} from './run-shell-store.ts'

/** Until when a request waits, in terms of performance.now(). */
export type Waiting = { deadline: number; signal: AbortSignal }

/** Bytes of a shell from an offset on; `shell` is its state when they were read. */
type ReadBytes = { bytes: Buffer; next: number; shell: RunShellRow }

/**
 * The input and output of shells on their way between clients and runners, which may be connected to different nodes.
 * Each direction is a sequence of bytes. Its writer repeats a request until it gets a later offset, and its reader
 * acknowledges what it has with the next offset that it asks for, so no byte is lost or read twice. On their way bytes
 * are sealed like secrets, which they may contain.
 */
export type ShellStreams = {
  /** Appends bytes once it fits into the window, and returns the next offset. After the end of the shell they are discarded. */
  append: (
    id: string,
    direction: Direction,
    piece: { start: number; bytes: Buffer },
    waiting: Waiting,
  ) => Promise<number>
  /** Waits for bytes after an offset, or until `isOver` finds a reason to return none. Throws `shell_not_found`. */
  read: (
    id: string,
    direction: Direction,
    after: number,
    options: Waiting & { isOver: (shell: RunShellRow) => Promise<boolean> },
  ) => Promise<ReadBytes>
}

/** Bytes on their way in one direction. */
const windowBytes = 4 * shellPieceMaxBytes
/** Pieces that a request reads; most are small. */
const maxPieces = 64

type Dependencies = { db: Database; changes: Notifier; vault: () => Promise<Vault> }

export function createShellStreams({ db, changes, vault }: Dependencies): ShellStreams {
  async function find(id: string): Promise<RunShellRow> {
    const shell = await findShell(db, id)
    if (!shell) throw shellNotFound(id)
    return shell
  }

  async function open(shell: RunShellRow, direction: Direction, from: number): Promise<Buffer> {
    const of = { id: shell.id, direction, from, limit: maxPieces }
    const opened = await vault()
    const pieces = (await listPieces(db, of)).map(({ start, sealedBytes }) => {
      const piece = opened.open(sealedBytes, bindingOf(shell, direction, start))
      if ('value' in piece) return Buffer.from(piece.value.reveal(), 'base64')
      const detail = `The ${direction} of the shell cannot be decrypted: ${piece.fault}.`
      throw new Problem('secret_unreadable', detail)
    })
    return Buffer.concat(pieces)
  }

  return {
    async append(id, direction, { start, bytes }, waiting) {
      const end = start + bytes.length
      const next = await changes.until(id, waiting, async () => {
        const shell = await find(id)
        const { size, read } = progressOf(shell, direction)
        if (shell.endedAt !== null) return end
        // A repeated request: its first response was lost.
        if (start < size) return size
        if (start > size) throw wrongOffset('/start', size)
        if (bytes.length === 0) return size
        if (size > read && end - read > windowBytes) return undefined
        const { seal } = await vault()
        const value = new Sensitive(bytes.toString('base64'))
        const { sealedValue: sealedBytes } = seal(value, bindingOf(shell, direction, start))
        const piece = { id, direction, start, size: bytes.length, sealedBytes }
        const isAppended = await db.transaction().execute((tx) => appendBytes(tx, piece))
        return isAppended ? end : undefined
      })
      if (next !== undefined) changes.notify(id)
      return next ?? start
    },

    async read(id, direction, after, { isOver, ...waiting }) {
      const { size, read } = progressOf(await find(id), direction)
      if (after > size) throw wrongOffset('after', size)
      const from = Math.max(after, read)
      if (from > read) {
        await db.transaction().execute((tx) => discardBytes(tx, { id, direction, before: from }))
        changes.notify(id)
      }
      const found = await changes.until(id, waiting, async (): Promise<ReadBytes | undefined> => {
        const current = await find(id)
        const isOverNow = await isOver(current)
        if (progressOf(current, direction).size === from && !isOverNow) return undefined
        // It may just have been ended.
        const shell = isOverNow ? await find(id) : current
        const bytes = await open(shell, direction, from)
        return { bytes, next: from + bytes.length, shell }
      })
      return found ?? { bytes: Buffer.alloc(0), next: from, shell: await find(id) }
    },
  }
}

function bindingOf(
  { id, repositoryId }: RunShellRow,
  direction: Direction,
  start: number,
): SecretBinding {
  return { scopeId: repositoryId, name: `shell ${id}, ${direction} ${start}` }
}

export function shellNotFound(id: string): Problem {
  return new Problem('shell_not_found', `There is no shell "${id}", or another token opened it.`)
}

function wrongOffset(pointer: string, size: number): Problem {
  return invalid([{ pointer, detail: `must not be after ${size}.` }])
}
