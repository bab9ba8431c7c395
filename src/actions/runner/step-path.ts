import { delimiter } from 'node:path'
import type { Isolation } from '../sandbox/sandbox.ts'

const usual = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
const system = ['/usr', '/opt', '/bin', '/sbin']

type Options = {
  /** The runner's own PATH. */
  path: string
  isolation: Isolation['kind']
  readOnlyPaths: readonly string[]
}

/** PATH of steps: the directories of the runner's PATH that steps can read, and the usual ones. */
export function toStepPath({ path, isolation, readOnlyPaths }: Options): string {
  const seen = [...system, ...readOnlyPaths]
  const isSeen = (folder: string) => seen.some((root) => `${folder}/`.startsWith(`${root}/`))
  const folders = path.split(delimiter).filter((folder) => folder.startsWith('/'))
  const own = isolation === 'none' ? folders : folders.filter(isSeen)
  return [...new Set([...own, ...usual])].join(delimiter)
}
