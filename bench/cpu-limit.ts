import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { familyOf } from '../test/support/processes.ts'

const periodMicros = 100_000
// Where the controllers of cgroups(7) usually are: version 1, and version 2.
const places = [
  {
    folder: '/sys/fs/cgroup/cpu',
    limit: 'cpu.cfs_quota_us',
    format: (quota: number) => `${quota}`,
  },
  {
    folder: '/sys/fs/cgroup',
    limit: 'cpu.max',
    format: (quota: number) => `${quota} ${periodMicros}`,
  },
]

let count = 0

/**
 * Limits a process and its descendants to a share of one core, until the group is disposed of, when they must have ended.
 * Undefined where this user may not do that.
 */
export function limitCpu(pid: number, share: number): Disposable | undefined {
  for (const { folder, limit, format } of places) {
    const group = join(folder, `svc-bench-cpu-${process.pid}-${count++}`)
    try {
      mkdirSync(group)
      writeFileSync(join(group, limit), format(share * periodMicros))
      for (const member of familyOf(pid)) writeFileSync(join(group, 'cgroup.procs'), `${member}`)
      return { [Symbol.dispose]: () => tryTo(() => rmdirSync(group)) }
    } catch {
      tryTo(() => rmdirSync(group))
    }
  }
  return undefined
}

// The kernel keeps a group for a moment after the last of its processes.
function tryTo(remove: () => void): void {
  try {
    remove()
  } catch {
    // Left for the next start of the machine.
  }
}
