import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import type { Server } from 'node:net'
import { findProgram } from '#base/find-program.ts'
import type { ListedHosts } from '#base/outbound/listed-hosts.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import { within } from '#base/timeouts.ts'
import type { HostAccess } from '../step-network/proxy-session.ts'
import { createStepOutbounds } from '../step-network/step-outbound.ts'
import { createStepProxy, type StepProxy } from '../step-network/step-proxy.ts'
import { type LaunchedProcess, launch } from './launch.ts'

/** The network of the steps of one job that may reach hosts: a namespace of the job, and a proxy that listens in it. */
export type JobNetwork = Disposable & {
  /** Serves the hosts to a command until disposed; the command must join the namespace. */
  begin: (access: HostAccess) => Promise<Disposable & Pick<NetworkNamespace, 'descriptors'>>
}

/** Returns a function that creates the network of a job, which costs nothing until a command uses it. */
export function createJobNetworks({
  path,
  hosts = { rules: [], classes: [] },
}: {
  path: string
  hosts?: ListedHosts | undefined
}): () => JobNetwork {
  const outboundOfJob = createStepOutbounds(hosts)
  const namespaces = createNamespaceSource(async () => {
    const bwrap = findProgram('bwrap', path)
    if (!bwrap) throw new Error('bubblewrap is not installed: apt-get install bubblewrap')
    return await openNetworkNamespace(bwrap)
  })
  return () => createJobNetwork(namespaces, outboundOfJob())
}

function createJobNetwork(namespaces: NamespaceSource, outbound: Outbound): JobNetwork {
  let opened: { namespace: NetworkNamespace; proxy: StepProxy } | undefined

  // A failure is not kept: the next step tries again.
  async function open() {
    const namespace = await namespaces.take()
    return { namespace, proxy: createStepProxy({ listener: namespace.listener, outbound }) }
  }

  return {
    async begin(access) {
      opened ??= await open()
      const { namespace, proxy } = opened
      const session = await proxy.begin(access)
      return {
        descriptors: namespace.descriptors,
        [Symbol.dispose]: () => session[Symbol.dispose](),
      }
    },

    [Symbol.dispose]() {
      if (!opened) return
      opened.proxy[Symbol.dispose]()
      opened.namespace[Symbol.dispose]()
      opened = undefined
      namespaces.prepare()
    },
  }
}

type NamespaceSource = { take: () => Promise<NetworkNamespace>; prepare: () => void }

/** Creates namespaces, one of them ahead of time, because that takes longer than the start of a step. */
function createNamespaceSource(open: () => Promise<NetworkNamespace>): NamespaceSource {
  let spare: Promise<NetworkNamespace> | undefined
  return {
    take() {
      const taken = spare
      spare = undefined
      return taken === undefined ? open() : taken.catch(open)
    },
    prepare() {
      spare ??= open()
      // The failure is handled by `take`, which tries again.
      spare.catch(() => {})
    },
  }
}

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
async function openNetworkNamespace(bwrap: string): Promise<NetworkNamespace> {
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
