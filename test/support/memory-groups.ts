import { readFileSync } from 'node:fs'
import { locateMemoryGroup, tryMemory } from '#actions/sandbox/memory/memory-controller.ts'

/** For a test's `skip`: why this process can make no control group with a limit of memory. */
export async function withoutMemoryGroups(): Promise<string | false> {
  const { fault } = await tryMemory({
    tools: { sh: '/bin/sh' },
    maxBytes: 2 ** 26,
    canMoveProcesses: true,
  })
  return fault === undefined ? false : `needs control groups of its own: ${fault}`
}

/** The control group that counts the memory of a process. */
export function memoryGroupOf(pid: number): string {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
  const found = locateMemoryGroup(readFileSync(`/proc/${pid}/cgroup`, 'utf8'), mounts)
  if (!found) throw new Error(`The process ${pid} is in no control group with memory.`)
  return found.folder
}
