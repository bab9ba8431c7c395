import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import type { Server } from 'node:net'
import { within } from '#base/timeouts.ts'
import { type LaunchedProcess, launch } from './launch.ts'

/** A network namespace with nothing but its loopback, where this process listens. */
export type NetworkNamespace = Disposable & {
  /** Accepts connections to `proxyPort` of the namespace's loopback. */
  listener: Server
  /** Descriptors of the namespace and, unless this process is root, of the user namespace that owns it. */
  descriptors: { net: number; user: number | undefined }
}

/** The registered port of proxies, for programs whose configuration names it. */
const proxyPort = 3128
/** The address of the proxy as steps see it. */
export const proxyUrl = `http://127.0.0.1:${proxyPort}`

const timeoutMs = 10_000

// Node can listen only in its own namespace, but pass the socket to its parent.
const program = `
const server = require('node:net').createServer()
server.listen(${proxyPort}, '127.0.0.1', () => process.send(process.pid, server))`

/**
 * Creates a network namespace: bubblewrap also brings up its loopback. It lasts while its descriptors or the listener
 * are open, without a process in it.
 */
export async function openNetworkNamespace(bwrap: string): Promise<NetworkNamespace> {
  const isRoot = process.getuid?.() === 0
  const child = launch({
    command: [
      ...([bwrap, '--dev-bind', '/', '/', '--unshare-net'] as const),
      ...(isRoot ? [] : ['--unshare-user']),
      ...['--die-with-parent', '--', process.execPath, '-e', program],
    ],
    env: {},
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  try {
    const toTimeoutError = () => new Error('A network namespace was not created in time.')
    const [pid, listener] = await within(timeoutMs, firstMessage(child), toTimeoutError)
    listener.unref()
    const net = openSync(`/proc/${pid}/ns/net`, 'r')
    const user = isRoot ? undefined : openSync(`/proc/${pid}/ns/user`, 'r')
    return {
      listener,
      descriptors: { net, user },
      [Symbol.dispose]() {
        listener.close()
        closeSync(net)
        if (user !== undefined) closeSync(user)
      },
    }
  } finally {
    child.kill('SIGKILL')
  }
}

/** The process id of the program, and its socket. */
async function firstMessage(child: LaunchedProcess): Promise<[pid: number, listener: Server]> {
  let errorOutput = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errorOutput = (errorOutput + text).slice(0, 1000)
  })
  const failed = once(child, 'close').then(() => {
    throw new Error(`A network namespace cannot be created: ${errorOutput.trim()}`)
  })
  failed.catch(() => {})
  const [pid, listener] = await Promise.race([once(child, 'message'), failed])
  return [pid, listener]
}
