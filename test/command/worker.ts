import { Socket } from 'node:net'
import { resolve } from 'node:path'
import { describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { exhaustive } from '../support/exhaustive.ts'
import { placeholder, type WorkerOrder } from './worker-messages.ts'

const files: string[] = []

process.on('message', (order: WorkerOrder) => {
  if ('end' in order) return end()
  const { path } = order
  files.push(path)
  // Each file is a suite, so that its hooks are for its own tests.
  describe(path, async () => {
    // Node leaves out a suite that has no test for the tag filter when it is declared.
    test(placeholder, exhaustive, () => {})
    await import(pathToFileURL(resolve(path)).href)
  })
})

// When the command ends, so do its workers, with the servers that they have started.
const abandon = () => process.exit(1)
process.once('SIGTERM', abandon).once('SIGINT', abandon).once('disconnect', abandon)

/** Lets the process end, which it does when its tests have left nothing open. */
function end(): void {
  process.off('disconnect', abandon)
  process.disconnect?.()
  const giveUp = () => {
    const left = [...process.getActiveResourcesInfo(), ...openConnections()]
    process.stderr.write(
      `The tests of this process have left resources open: ${left.join(', ')}.\nIts files: ${files.join(', ')}.\n`,
    )
    process.exit(1)
  }
  setTimeout(giveUp, 60_000).unref()
}

/** The addresses of both ends of each connection. */
function openConnections(): string[] {
  // Not documented, but the only way to get at them.
  const { _getActiveHandles } = process as unknown as { _getActiveHandles: () => unknown[] }
  return _getActiveHandles.call(process).flatMap((handle) => {
    if (!(handle instanceof Socket) || handle.localPort === undefined) return []
    return `port ${handle.localPort} to ${handle.remoteAddress}:${handle.remotePort}`
  })
}
