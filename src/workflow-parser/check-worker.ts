import { parentPort } from 'node:worker_threads'
import { parseFile } from './parse.ts'
import type { Action, Fault, Note, SourceFile, Workflow } from './workflow.ts'

/** A request to the thread, one file at a time. */
export type CheckRequest = { kind: 'workflow' | 'action'; file: SourceFile }

export type CheckResponse = {
  result: Workflow | Action | undefined
  faults: Fault[]
  notes: Note[]
}

parentPort?.on('message', ({ kind, file }: CheckRequest) => {
  parentPort?.postMessage(parseFile(kind, file))
})
// Signals that the thread is loaded, so loading does not count as time for a file.
parentPort?.postMessage('ready')
