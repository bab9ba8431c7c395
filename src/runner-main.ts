import { createInterface } from 'node:readline'
import { closeInheritedDescriptors } from './base/inherited-descriptors.ts'
import { createLog } from './base/log.ts'
import { Sensitive } from './base/sensitive.ts'
import { dropStartupGarbage } from './base/startup-garbage.ts'
import { runRunner } from './runner/runner.ts'
import { RunnerError } from './runner/runner-fault.ts'
import type { RunnerOrders } from './runner/runner-orders.ts'

// The program of the runner beside a server, which starts it: it is told all it needs by a line of JSON on
// standard input, where nobody else sees it, and ends when that ends, however that came.

closeInheritedDescriptors()

const exitMostMs = 3000
const stop = new AbortController()
// Ctrl-C is for the server, which says when this ends: by SIGTERM.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => stop.abort())

const lines = createInterface({ input: process.stdin })
lines.once('line', (line) => {
  // It comes from the server, which is of the same version.
  const orders: RunnerOrders = JSON.parse(line)
  void run(orders)
})
lines.once('close', () => {
  stop.abort()
  // Nobody is there to hand a run back to; what cannot be cleared away in this time, the next start does.
  setTimeout(() => process.exit(1), exitMostMs).unref()
})

async function run({ server, token, logLevel, ...orders }: RunnerOrders): Promise<void> {
  const log = createLog({ level: logLevel, output: process.stderr })
  dropStartupGarbage()
  try {
    await runRunner({
      ...orders,
      server: new URL(server),
      token: new Sensitive(token),
      log,
      signal: stop.signal,
    })
    process.exit(0)
  } catch (error) {
    if (error instanceof RunnerError) log.error({ reason: error.message }, 'the runner cannot work')
    else log.error({ err: error }, 'the runner failed')
    process.exit(1)
  }
}
