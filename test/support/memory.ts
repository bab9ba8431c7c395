import assert from 'node:assert/strict'
import { memoryOf } from './processes.ts'
import type { Service } from './service.ts'

const mib = 1024 * 1024
const lookEveryMs = 50

/** Fails when a server's memory grows too far at any time while something is done. */
export async function assertFrugal(
  { pid }: Service,
  act: () => Promise<void>,
  mayGrow = 40 * mib,
): Promise<void> {
  const before = memoryOf(pid)
  let most = before
  const watch = setInterval(() => {
    most = Math.max(most, memoryOf(pid))
  }, lookEveryMs)
  try {
    await act()
  } finally {
    clearInterval(watch)
  }
  const grown = most - before
  assert.ok(grown < mayGrow, `it grew by ${Math.round(grown / mib)} MiB`)
}
