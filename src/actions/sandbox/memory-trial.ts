import { codeOf } from '#base/error-code.ts'
import { newId } from '#base/ids.ts'
import { runTool } from './launch.ts'
import { findMemoryController } from './memory-controller.ts'
import { type MemoryController, makeMemoryGroup } from './memory-group.ts'
import type { SandboxTools } from './tools.ts'

/** Where control groups for steps can be created, or why not. */
export type MemoryTrial =
  | { controller: MemoryController; fault: undefined }
  | { controller: undefined; fault: string }

type Options = {
  tools: Pick<SandboxTools, 'sh'>
  maxBytes: number
  /** See `findMemoryController`. */
  canMoveProcesses: boolean
}

/** Creates a group that a process joins, as a trial. Never rejects. */
export async function tryMemory({
  tools,
  maxBytes,
  canMoveProcesses,
}: Options): Promise<MemoryTrial> {
  try {
    const controller = findMemoryController({ canMoveProcesses })
    const group = makeMemoryGroup(controller, `svc-trial-${newId()}`, maxBytes)
    const join = ['-c', 'echo 0 >"$1"', 'sh', group.procsFile]
    const { exitCode } = await runTool([tools.sh, ...join]).finally(group.remove)
    if (exitCode === 0) return { controller, fault: undefined }
    return { controller: undefined, fault: 'a process may not join one' }
  } catch (error) {
    return { controller: undefined, fault: toReason(error) }
  }
}

/** Moves the server's processes to a subgroup while there are few, so that its runner can create groups. */
export function prepareMemoryLimits(): void {
  try {
    findMemoryController({ canMoveProcesses: true })
  } catch {
    // The runner logs later which limit is in force, and why.
  }
}

export function describeMemory({ controller, fault }: MemoryTrial): string {
  if (controller) return `The kernel limits their memory (${controller.version}).`
  return `Their memory is measured every 100 ms, without the buffers of sockets, since no control group can be made: ${fault}.`
}

// Omits the error's path, which readers of a run must not see.
function toReason(error: unknown): string {
  const code = codeOf(error)
  if (code === 'EACCES' || code === 'EPERM') return 'this user may not make one'
  if (code === 'EROFS') return 'the cgroup file system is mounted read-only'
  if (code !== undefined) return `the system says ${code}`
  return error instanceof Error ? error.message : String(error)
}
