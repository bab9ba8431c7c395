import { freePort } from '../test/support/free-port.ts'
import { createEnclosure } from './enclosure.ts'
import { untilListening } from './listening.ts'
import { start } from './program.ts'
import type { Workspace } from './workspace.ts'

/** `git daemon`, on its own loopback port, for the repositories of another peer. */
export async function startDaemonPeer(workspace: Workspace, repositories: string) {
  await using starting = new AsyncDisposableStack()
  const port = await freePort()
  const { prefix, cpuMs } = starting.use(createEnclosure())
  const options = [
    '--listen=127.0.0.1',
    `--port=${port}`,
    `--base-path=${repositories}`,
    '--max-connections=0',
  ]
  const words = [...prefix, 'git', 'daemon', '--export-all', '--reuseaddr', ...options]
  const server = starting.use(start(words, workspace.env))
  const listening = untilListening([{ host: '127.0.0.1', port }], workspace.signal)
  await Promise.race([listening, server.failed])

  const running = starting.move()
  return {
    url: `git://127.0.0.1:${port}`,
    cpuMs,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
