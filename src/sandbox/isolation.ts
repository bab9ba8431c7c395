import { describeMemory, type MemoryTrial } from './memory-trial.ts'
import type { Isolation, SandboxLimits } from './sandbox.ts'

/** What to do where bubblewrap does not work: `none` does not even try it. */
export type SandboxMode = 'auto' | 'require' | 'none'

export type Choice = 'bubblewrap' | 'unsandboxed' | 'refused'

type Found = {
  mode: SandboxMode
  /** Why there is no sandbox; undefined when bubblewrap works. */
  fault: string | undefined
  isRoot: boolean
  /** Whether the steps are the own ones of the user who runs them. */
  ownUserAllowed?: boolean | undefined
}

/**
 * Decides how steps run. Root gives each job a user of its own, so that it can do without a sandbox; the steps of any
 * other user would have that user's rights: they could read the keys and the database of a server.
 */
export function chooseIsolation({ mode, fault, isRoot, ownUserAllowed = false }: Found): Choice {
  if (fault === undefined) return 'bubblewrap'
  if (mode === 'none') return 'unsandboxed'
  if (mode === 'auto' && (isRoot || ownUserAllowed)) return 'unsandboxed'
  return 'refused'
}

type Described = Found & {
  network: 'none' | 'full'
  limits: Pick<SandboxLimits, 'memoryMaxBytes' | 'processesMax'>
  memory: MemoryTrial
}

/** The isolation that was chosen, with a description for people. */
export function describeIsolation(found: Described): Isolation {
  const { mode, fault = '', isRoot, limits, memory } = found
  const choice = chooseIsolation(found)
  const kind = choice === 'bubblewrap' ? 'bubblewrap' : 'none'
  const network = choice === 'unsandboxed' ? 'full' : found.network
  const memoryLimit = memory.controller?.version ?? 'watched'
  const about = (description: string): Isolation => ({ kind, network, memoryLimit, description })

  const most = `${Math.floor(limits.memoryMaxBytes / 1_048_576)} MiB of memory, ${limits.processesMax} processes`
  if (choice === 'bubblewrap') {
    const reach = network === 'full' ? 'the network that the runner has' : 'no network'
    return about(
      `Steps run in bubblewrap with everything unshared, the system read-only, ${reach} and at most ${most}. ${describeMemory(memory)}`,
    )
  }
  const reason =
    mode === 'none' ? `${fault}.` : `bubblewrap does not work here: ${toSentence(fault)}`
  if (mode === 'require') {
    return about(`Steps do not run here: they may run in a sandbox only, and ${reason}`)
  }
  if (choice === 'refused') {
    return about(
      `Steps do not run here: without a sandbox they would have the rights of the runner's own user, and could read the keys and the database of a server, and ${reason} Run \`apt-get install bubblewrap\`; where it is installed, \`svc doctor\` says what it needs. SVC_SANDBOX=none runs them all the same.`,
    )
  }
  const identity = isRoot ? 'as users of their own' : "as the runner's own user"
  return about(
    `Steps run without a sandbox, ${identity}, with the whole network and at most ${most}, for ${reason} ${describeMemory(memory)}`,
  )
}

function toSentence(text: string): string {
  return text.trim().replace(/(?<![.!?])$/, '.')
}
