import { parentPort } from 'node:worker_threads'
import { parseAction, parseWorkflow } from './parse.ts'
import type { Action, Fault, SourceFile, Workflow } from './workflow.ts'

/** A request to the thread, one file at a time. */
export type CheckRequest = { kind: 'workflow' | 'action'; file: SourceFile }

export type CheckResponse = { result: Workflow | Action | undefined; faults: Fault[] }

parentPort?.on('message', ({ kind, file }: CheckRequest) => {
  if (kind === 'workflow') {
    const { workflow, faults } = parseWorkflow(file)
    respond({ result: workflow, faults })
  } else {
    const { action, faults } = parseAction(file)
    respond({ result: action, faults })
  }
})
// Signals that the thread is loaded, so loading does not count as time for a file.
parentPort?.postMessage('ready')

function respond(response: CheckResponse): void {
  parentPort?.postMessage(response)
}
