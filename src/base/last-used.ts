import type { Clock } from './clock.ts'

type Options = {
  clock: Clock
  write: (id: string, at: number) => Promise<unknown>
  /** Called when the write failed, on a full disk for example; the use itself does not fail. */
  onError: (error: unknown, id: string) => void
}

const precisionMs = 30_000

/** Records when something was last used, at most every 30 s and in the background. */
export function createLastUsed({ clock, write, onError }: Options) {
  const writing = new Set<string>()
  return function note({ id, lastUsedAt }: { id: string; lastUsedAt: number | null }): void {
    const now = clock.now()
    if (now - (lastUsedAt ?? 0) < precisionMs || writing.has(id)) return
    writing.add(id)
    write(id, now)
      .catch((error) => onError(error, id))
      .finally(() => writing.delete(id))
  }
}
