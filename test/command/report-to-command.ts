import type { TestEvent } from 'node:test/reporters'
import { inspect } from 'node:util'
import { placeholder, type WorkerEvent } from './worker-messages.ts'

/** A reporter of node:test that sends each result to the process which started this one, and prints warnings. */
// biome-ignore lint/style/noDefaultExport: Node takes the default export of a reporter.
export default async function* reportToCommand(events: AsyncIterable<TestEvent>) {
  let names: string[] = []
  const send = (event: WorkerEvent) => process.send?.(event)
  for await (const { type, data } of events) {
    if (type === 'test:diagnostic' && data.level !== 'info') yield `${data.message}\n`
    if (type !== 'test:start' && type !== 'test:pass' && type !== 'test:fail') continue
    if (data.name === placeholder) continue
    // The outermost suite is the file.
    names = [...names.slice(0, data.nesting), data.name]
    const inner = names.slice(1)
    if (type === 'test:start') send({ kind: 'started', names: inner })
    if (type === 'test:fail') {
      const { error } = data.details
      // A suite fails with each of its tests, too.
      const isOwn = !('failureType' in error && error.failureType === 'subtestsFailed')
      if (isOwn) send({ kind: 'failed', names: inner, error: inspect(error.cause ?? error) })
    }
    if (type === 'test:pass') {
      const { skip, details } = data
      if (skip !== undefined && skip !== false)
        send({ kind: 'skipped', names: inner, reason: String(skip) })
      else if (details.type !== 'suite') send({ kind: 'passed', names: inner })
    }
    if (type !== 'test:start' && data.nesting === 0) send({ kind: 'file-ended' })
  }
}
