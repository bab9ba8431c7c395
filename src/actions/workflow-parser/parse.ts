import { createFaultList, type FaultList } from './fault-list.ts'
import { readAction } from './read-action.ts'
import { readSource } from './read-source.ts'
import { readWorkflow } from './read-workflow.ts'
import type { SourceNode } from './source-node.ts'
import type { Fault, Note, SourceFile } from './workflow.ts'

/** Parses a workflow file and lists its faults and notes; `workflow` is undefined if there are faults. */
export function parseWorkflow(file: SourceFile) {
  const { result: workflow, ...found } = parse(file, readWorkflow)
  return { workflow, ...found }
}

/** Parses the action.yml of an action in the same way. */
export function parseAction(file: SourceFile) {
  const { result: action, ...found } = parse(file, readAction)
  return { action, ...found }
}

/** Parses a file of either kind. */
export function parseFile(kind: 'workflow' | 'action', file: SourceFile) {
  return kind === 'workflow' ? parse(file, readWorkflow) : parse(file, readAction)
}

function parse<Result>(
  file: SourceFile,
  read: (path: string, root: SourceNode, faults: FaultList) => Result | undefined,
): { result: Result | undefined; faults: Fault[]; notes: Note[] } {
  const list = createFaultList(file)
  const root = readSource(file, list)
  const result = root && read(file.path, root, list)
  const faults = list.all()
  return { result: faults.length === 0 ? result : undefined, faults, notes: list.notes() }
}
