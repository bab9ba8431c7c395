import { checkShell } from './check-shell.ts'
import type { FaultList } from './fault-list.ts'
import { type Field, openFields } from './fields.ts'
import { readTemplate } from './values.ts'
import type { Defaults } from './workflow.ts'

/** `defaults.run` of a workflow or a job. */
export function readDefaults(field: Field | undefined, faults: FaultList): Defaults {
  const none = { shell: undefined, workingDirectory: undefined }
  const outer = field && openFields(field, { name: '"defaults"', keys: ['run'] }, faults)
  const run = outer?.get('run')
  const inner = run && openFields(run, defaultsShape, faults)
  if (!inner) return none
  const shell = inner.get('shell')
  checkShell(shell, faults)
  return {
    shell: readTemplate(shell, 'job.defaults', faults),
    workingDirectory: readTemplate(inner.get('working-directory'), 'job.defaults', faults),
  }
}

const defaultsShape = { name: '"defaults.run"', keys: ['shell', 'working-directory'] as const }
