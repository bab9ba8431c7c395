import { findProgram } from '#base/find-program.ts'
import type { ListedHosts } from '#base/outbound/listed-hosts.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import type { HostAccess } from '../step-network/proxy-session.ts'
import { createStepOutbounds } from '../step-network/step-outbound.ts'
import { createStepProxy, type StepProxy } from '../step-network/step-proxy.ts'
import { type NetworkNamespace, openNetworkNamespace } from './network-namespace.ts'

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
      // The one who takes it tries again.
      spare.catch(() => {})
    },
  }
}
