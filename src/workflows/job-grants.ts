import { permissionsOf } from '#actions/workflow-parser/job-permissions.ts'
import type { JobPermissions, Workflow } from '#actions/workflow-parser/workflow.ts'
import { Problem } from '#base/problem.ts'

/** What jobs of a file of a run ask for: in that file, or in one that it calls. */
export type JobGrant = {
  file: string
  /** The name of the workflow of the file. */
  workflow: string
  jobFile: string
  permissions: JobPermissions
}

// Each has a token, which is masked in all output.
const maxGrants = 200

/** Lists the different permissions of the jobs of a run. Throws `workflow_invalid` when there are very many. */
export function grantsOf(files: readonly Workflow[], called: readonly Workflow[]): JobGrant[] {
  const byPath = new Map([...called, ...files].map((one) => [one.path, one]))
  const grants = new Map<string, JobGrant>()
  const calls = new Set<string>()

  function visit(file: Workflow, current: Workflow, ofCaller: JobPermissions | undefined): void {
    for (const job of current.jobs) {
      if (grants.size + calls.size > maxGrants) throw tooMany()
      const permissions = permissionsOf(current, job, ofCaller)
      const jobFile = job.call?.path ?? current.path
      const key = JSON.stringify([file.path, jobFile, permissions])
      const callee = job.call && byPath.get(jobFile)
      if (callee && !calls.has(key)) {
        calls.add(key)
        visit(file, callee, permissions)
      }
      // PostgreSQL cannot store NUL.
      const workflow = file.name.replaceAll('\0', '\u{fffd}')
      if (!job.call) grants.set(key, { file: file.path, workflow, jobFile, permissions })
    }
  }

  for (const file of files) visit(file, file, undefined)
  return [...grants.values()]
}

function tooMany(): Problem {
  const detail = `The jobs of the run have more than ${maxGrants} different permissions.`
  return new Problem('workflow_invalid', detail)
}
