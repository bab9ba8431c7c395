import { type FaultList, quoted } from './fault-list.ts'
import type { Field, Fields } from './fields.ts'
import { readCondition, readText } from './values.ts'
import type { ActionHook, ActionProgram } from './workflow.ts'

type RunsKey = 'steps' | 'main' | 'pre' | 'pre-if' | 'post' | 'post-if'

/** Whether `using` names a version of Node.js. */
export function isNodeVersion(using: string): boolean {
  return /^node(12|16|20|22|24)$/.test(using)
}

/** Reads the files of an action for Node.js; complete only if there are no faults. */
export function readProgram(
  using: string,
  field: Field,
  fields: Fields<RunsKey>,
  faults: FaultList,
): ActionProgram | undefined {
  const steps = fields.get('steps')
  if (steps) {
    const instead = `Remove it, or write "using: composite" instead of ${quoted(using)}.`
    faults.add(steps.keyPosition, '"steps" belongs to a composite action.', instead)
  }
  const main = readFile(fields.get('main'), faults)
  if (!fields.get('main')) {
    const instead = 'Write "main:" with the path of a script in the folder of the action.'
    faults.add(field.keyPosition, '"runs" has no "main".', instead)
  }
  const pre = readHook(fields, 'pre', faults)
  const post = readHook(fields, 'post', faults)
  return main === undefined ? undefined : { using, main, pre, post }
}

/** Reports keys of `runs` that a composite action does not have. */
export function rejectProgramKeys(fields: Fields<RunsKey>, faults: FaultList): void {
  for (const key of ['main', 'pre', 'pre-if', 'post', 'post-if'] as const) {
    const field = fields.get(key)
    if (!field) continue
    const message = `${field.label} belongs to an action for Node.js, not to a composite one.`
    faults.add(field.keyPosition, message, 'Write "using: node24", or remove it.')
  }
}

function readHook(
  fields: Fields<RunsKey>,
  key: 'pre' | 'post',
  faults: FaultList,
): ActionHook | undefined {
  const file = readFile(fields.get(key), faults)
  const field = fields.get(`${key}-if`)
  const condition = readCondition(field, 'action.hook-if', faults)
  if (field && !fields.get(key)) {
    const instead = `Write "${key}:" with the path of a script, or remove it.`
    faults.add(field.keyPosition, `${field.label} has no "${key}".`, instead)
  }
  return file === undefined ? undefined : { file, if: condition }
}

function readFile(field: Field | undefined, faults: FaultList): string | undefined {
  const path = readText(field, faults)
  if (!field || path === undefined) return undefined
  if (!path.startsWith('/') && !/\p{Cc}/u.test(path)) return path
  const instead = 'Write a path from the folder of the action: "dist/index.js".'
  return void faults.add(field.node.position, `${field.label} is not a relative path.`, instead)
}
