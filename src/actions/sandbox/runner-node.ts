import { realpathSync } from 'node:fs'
import { firstClosed } from './hidden-paths.ts'
import type { RunnerNode } from './sandbox.ts'

/** Where steps in bubblewrap see the Node.js of the runner. */
export const insideNode = '/svc-node'

/** The Node.js of this process; undefined when `isOther` and other users cannot execute it. */
export function findNode({ isOther }: { isOther: boolean }): RunnerNode | undefined {
  const path = realpathSync(process.execPath)
  if (isOther && firstClosed(path, '/') !== undefined) return undefined
  return { path, version: process.versions.node }
}
