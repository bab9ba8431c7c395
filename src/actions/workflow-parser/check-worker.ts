import { respondToRequests } from '#base/concurrency/worker-requests.ts'
import { parseFile } from './reading/parse.ts'
import type { Action, Fault, Note, SourceFile, Workflow } from './workflow.ts'

/** A request to the thread, one file at a time. */
export type CheckRequest = { kind: 'workflow' | 'action'; file: SourceFile }

export type CheckResponse = {
  result: Workflow | Action | undefined
  faults: Fault[]
  notes: Note[]
}

respondToRequests(({ kind, file }: CheckRequest): CheckResponse => parseFile(kind, file))
