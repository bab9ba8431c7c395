import { createFaultList, type FaultList } from './fault-list.ts'
import { readAction } from './read-action.ts'
import { readSource } from './read-source.ts'
import { readWorkflow } from './read-workflow.ts'
import type { SourceNode } from './source-node.ts'
import type { Action, Fault, SourceFile, Workflow } from './workflow.ts'

/** Parses a workflow file and lists its faults; `workflow` is undefined if there are any. */
export function parseWorkflow(file: SourceFile): {
  workflow: Workflow | undefined
  faults: Fault[]
} {
  const { result: workflow, faults } = parse(file, readWorkflow)
  return { workflow, faults }
}

/** Parses the action.yml of a composite action in the same way. */
export function parseAction(file: SourceFile): { action: Action | undefined; faults: Fault[] } {
  const { result: action, faults } = parse(file, readAction)
  return { action, faults }
}

function parse<Result>(
  file: SourceFile,
  read: (path: string, root: SourceNode, faults: FaultList) => Result | undefined,
): { result: Result | undefined; faults: Fault[] } {
  const list = createFaultList(file)
  const root = readSource(file, list)
  const result = root && read(file.path, root, list)
  const faults = list.all()
  return { result: faults.length === 0 ? result : undefined, faults }
}
