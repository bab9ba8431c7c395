import { createInterface } from 'node:readline'
import { runRunner } from '#actions/runner/runner.ts'
import type { RunnerConfiguration } from '#actions/runner/runner-configuration.ts'
import { RunnerError } from '#actions/runner/runner-folder.ts'
import { closeInheritedDescriptors } from '#base/inherited-descriptors.ts'
import { createLog } from '#base/log.ts'
import { Sensitive } from '#base/sensitive.ts'
import { dropStartupGarbage } from '#base/startup-garbage.ts'

// The program of the built-in runner. The server starts it and passes the configuration, with the token, as a line of
// JSON on standard input, which other users cannot see. When standard input ends, it exits.

closeInheritedDescriptors()

const exitTimeoutMs = 3000
const stop = new AbortController()
// Ctrl-C is for the server, which then sends SIGTERM.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => stop.abort())

const lines = createInterface({ input: process.stdin })
lines.once('line', (line) => {
  // Trusted: from the server, which is the same version.
  const configuration: RunnerConfiguration = JSON.parse(line)
  void run(configuration)
})
lines.once('close', () => {
  stop.abort()
  // There is no server to hand runs back to; the next start cleans up what is not removed in this time.
  setTimeout(() => process.exit(1), exitTimeoutMs).unref()
})

async function run({
  server,
  token,
  logLevel,
  ...configuration
}: RunnerConfiguration): Promise<void> {
  const log = createLog({ level: logLevel, output: process.stderr })
  dropStartupGarbage()
  try {
    await runRunner({
      ...configuration,
      server: new URL(server),
      token: new Sensitive(token),
      log,
      signal: stop.signal,
    })
    process.exit(0)
  } catch (error) {
    if (error instanceof RunnerError) log.error({ reason: error.message }, 'runner stopped')
    else log.error({ err: error }, 'runner failed')
    process.exit(1)
  }
}
