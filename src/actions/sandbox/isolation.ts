import { describeMemory, type MemoryTrial } from './memory/memory-controller.ts'
import type { Isolation, SandboxLimits } from './sandbox.ts'

/** What to do where bubblewrap does not work; `none` never tries it. */
export type SandboxMode = 'auto' | 'require' | 'none'

export type Choice = 'bubblewrap' | 'unsandboxed' | 'refused'

type IsolationInput = {
  mode: SandboxMode
  /** Why bubblewrap does not work; undefined when it does. */
  fault: string | undefined
  isRoot: boolean
  /** Whether steps may run as the current user, because they are that user's own. */
  ownUserAllowed?: boolean | undefined
}

/**
 * Decides how steps run. Root gives each job its own user id, which separates it even without a sandbox. Steps of any
 * other user would have that user's rights and could read the keys and the database of a server.
 */
export function chooseIsolation({
  mode,
  fault,
  isRoot,
  ownUserAllowed = false,
}: IsolationInput): Choice {
  if (fault === undefined) return 'bubblewrap'
  if (mode === 'none') return 'unsandboxed'
  if (mode === 'auto' && (isRoot || ownUserAllowed)) return 'unsandboxed'
  return 'refused'
}

type DescriptionInput = IsolationInput & {
  network: Isolation['network']
  /** Why steps have no network although SVC_STEP_HOSTS lists hosts. */
  proxyFault?: string | undefined
  limits: Pick<SandboxLimits, 'memoryMaxBytes' | 'processesMax'>
  memory: MemoryTrial
}

export function describeIsolation(input: DescriptionInput): Isolation {
  const { mode, fault = '', isRoot, limits, memory, proxyFault } = input
  const choice = chooseIsolation(input)
  const kind = choice === 'bubblewrap' ? 'bubblewrap' : 'none'
  const network = choice === 'unsandboxed' ? 'full' : input.network
  const memoryLimit = memory.controller?.version ?? 'watched'
  const withDescription = (description: string): Isolation => ({
    kind,
    network,
    memoryLimit,
    description,
  })

  const limitsText = `${Math.floor(limits.memoryMaxBytes / 1_048_576)} MiB of memory, ${limits.processesMax} processes`
  if (choice === 'bubblewrap') {
    const missing =
      proxyFault === undefined
        ? ''
        : ` Steps cannot reach the hosts of SVC_STEP_HOSTS: ${toSentence(proxyFault)}`
    return withDescription(
      `Steps run in bubblewrap with everything unshared, the system read-only, ${reaches[network]} and at most ${limitsText}. ${describeMemory(memory)}${missing}`,
    )
  }
  const reason =
    mode === 'none' ? `${fault}.` : `bubblewrap does not work here: ${toSentence(fault)}`
  if (mode === 'require') {
    return withDescription(`Steps do not run here: a sandbox is required, and ${reason}`)
  }
  if (choice === 'refused') {
    return withDescription(
      `Steps do not run here: without a sandbox they would have the rights of the runner's own user, and could read the keys and the database of a server, and ${reason} Run \`apt-get install bubblewrap\`; where it is installed, \`svc doctor\` says what it needs. SVC_SANDBOX=none runs them all the same.`,
    )
  }
  const identity = isRoot ? 'as users of their own' : "as the runner's own user"
  return withDescription(
    `Steps run without a sandbox, ${identity}, with the whole network and at most ${limitsText}, for ${reason} ${describeMemory(memory)}`,
  )
}

const reaches: Record<Isolation['network'], string> = {
  none: 'no network',
  hosts: 'of the network only the hosts of SVC_STEP_HOSTS through a proxy,',
  full: 'the network that the runner has',
}

function toSentence(text: string): string {
  return text.trim().replace(/(?<![.!?])$/, '.')
}
