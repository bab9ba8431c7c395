import { parentPort } from 'node:worker_threads'
import { parseAction, parseWorkflow } from './parse.ts'
import type { Action, Fault, SourceFile, Workflow } from './workflow.ts'

/** A request to the thread, one file at a time. */
export type CheckQuestion = { kind: 'workflow' | 'action'; file: SourceFile }

export type CheckAnswer = { result: Workflow | Action | undefined; faults: Fault[] }

parentPort?.on('message', ({ kind, file }: CheckQuestion) => {
  if (kind === 'workflow') {
    const { workflow, faults } = parseWorkflow(file)
    answer({ result: workflow, faults })
  } else {
    const { action, faults } = parseAction(file)
    answer({ result: action, faults })
  }
})
// Signals that the thread is loaded, so loading does not count as time for a file.
parentPort?.postMessage('ready')

function answer(what: CheckAnswer): void {
  parentPort?.postMessage(what)
}
