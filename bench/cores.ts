import { readFileSync } from 'node:fs'

/** Some of the cores that this process may use, as taskset(1) takes them. */
export function firstCores(count: number): string {
  const status = readFileSync('/proc/self/status', 'latin1')
  const [, list = ''] = /^Cpus_allowed_list:\s*(\S+)$/m.exec(status) ?? []
  const all = list.split(',').flatMap((range) => {
    const [from = 0, to = from] = range.split('-').map(Number)
    return Array.from({ length: to - from + 1 }, (_, index) => from + index)
  })
  return all.slice(0, count).join(',')
}
