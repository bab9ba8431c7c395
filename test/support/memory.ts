import assert from 'node:assert/strict'
import { memoryOf, nodesOf } from './processes.ts'
import type { Service } from './service.ts'

const mib = 1024 * 1024
const lookEveryMs = 50

/** Fails when a server's memory grows too far at any time while something is done. */
export async function assertFrugal(
  { pid: server }: Service,
  act: () => Promise<void>,
  mayGrow = 40 * mib,
): Promise<void> {
  let nodes = nodesOf(server)
  const before = memoryOf(nodes)
  let most = before
  let looks = 0
  const watch = setInterval(() => {
    // To find them takes longer than to measure them.
    if (++looks % 20 === 0) nodes = nodesOf(server)
    most = Math.max(most, memoryOf(nodes))
  }, lookEveryMs)
  try {
    await act()
  } finally {
    clearInterval(watch)
  }
  const grown = most - before
  assert.ok(grown < mayGrow, `it grew by ${Math.round(grown / mib)} MiB`)
}
