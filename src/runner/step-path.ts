import { delimiter } from 'node:path'
import type { Isolation } from '../sandbox/sandbox.ts'

const usual = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
const system = ['/usr', '/opt', '/bin', '/sbin']

type Options = {
  /** Where the runner looks for programs, in the form of PATH. */
  path: string
  isolation: Isolation['kind']
  readOnlyPaths: readonly string[]
}

/** PATH of steps: as the runner's, as far as they see what is there, and the usual folders. */
export function toStepPath({ path, isolation, readOnlyPaths }: Options): string {
  const seen = [...system, ...readOnlyPaths]
  const isSeen = (folder: string) => seen.some((root) => `${folder}/`.startsWith(`${root}/`))
  const folders = path.split(delimiter).filter((folder) => folder.startsWith('/'))
  const own = isolation === 'none' ? folders : folders.filter(isSeen)
  return [...new Set([...own, ...usual])].join(delimiter)
}
