import type { Clock } from './clock.ts'

type Options = {
  clock: Clock
  write: (id: string, at: number) => Promise<unknown>
  /** Called when it could not be written: that is not worth refusing whoever uses the thing, on a full disk for example. */
  onFault: (error: unknown, id: string) => void
}

const precisionMs = 30_000

/** Has it written down when something was last used, every 30 s at most. Nobody waits for that. */
export function createLastUsed({ clock, write, onFault }: Options) {
  const writing = new Set<string>()
  return function note({ id, lastUsedAt }: { id: string; lastUsedAt: number | null }): void {
    const now = clock.now()
    if (now - (lastUsedAt ?? 0) < precisionMs || writing.has(id)) return
    writing.add(id)
    write(id, now)
      .catch((error) => onFault(error, id))
      .finally(() => writing.delete(id))
  }
}
