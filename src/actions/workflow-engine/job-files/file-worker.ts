import { respondToRequests } from '#base/concurrency/worker-requests.ts'
import { createGlob } from './glob.ts'
import { type HashAllowance, hashMatching } from './hash-matching-files.ts'

/** A request to the thread: to hash the matching files of a folder, or to find the matching ones of some names. */
export type FileRequest = {
  patterns: string[]
  /** The folder that absolute patterns start with. */
  workspace: string
} & ({ folder: string; allowance: HashAllowance } | { names: Uint8Array })

/** `matches` has the indexes of the names, which end with NUL. A fault continues a sentence. */
export type FileResponse =
  | { hash: string; allowance: HashAllowance }
  | { matches: number[] }
  | { fault: string; allowance: HashAllowance | undefined }

respondToRequests((request: FileRequest): FileResponse => {
  try {
    return respond(request)
  } catch (error) {
    const fault = error instanceof Error ? error.message : String(error)
    return { fault, allowance: 'allowance' in request ? request.allowance : undefined }
  }
})

function respond(request: FileRequest): FileResponse {
  const matches = createGlob(request.patterns, request.workspace)
  if ('folder' in request) {
    const { allowance } = request
    return { hash: hashMatching(request, matches, allowance), allowance }
  }
  const names = Buffer.from(request.names).toString().split('\0').slice(0, -1)
  return { matches: [...names.keys()].filter((index) => matches(names[index] ?? '')) }
}
