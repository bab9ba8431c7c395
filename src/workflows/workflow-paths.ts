import { type FieldError, Problem } from '../base/problem.ts'
import type { SourceFile } from '../workflow-parser/workflow.ts'

/** Where workflow files are. */
export const workflowsFolder = '.svc/workflows'

/** Whether a file's name is that of a workflow. */
export function isWorkflowName(name: string): boolean {
  return /\.ya?ml$/.test(name)
}

/** The paths that a request names, `ci.yml` or `.svc/workflows/ci.yml`. Throws `invalid_request` for any that leads elsewhere. */
export function toWorkflowPaths(files: string[]): string[] {
  assertInside(files, (index) => `/files/${index}`)
  return [...new Set(files.map(toPath))]
}

/** The same for files that a request brings along, each of them once. */
export function toGivenFiles(contents: SourceFile[]): SourceFile[] {
  const pointer = (index: number) => `/contents/${index}/path`
  assertInside(
    contents.map(({ path }) => path),
    pointer,
  )
  const given = contents.map(({ path, text }) => ({ path: toPath(path), text }))
  const again = given.findIndex(({ path }, index) =>
    given.some((one, at) => at < index && one.path === path),
  )
  if (again !== -1) throw elsewhere([{ pointer: pointer(again), detail: 'is given twice' }])
  return given
}

function assertInside(files: string[], pointer: (index: number) => string): void {
  const errors = files.flatMap((file, index) => {
    const detail = faultOf(file)
    return detail === undefined ? [] : [{ pointer: pointer(index), detail }]
  })
  if (errors.length > 0) throw elsewhere(errors)
}

function elsewhere(errors: FieldError[]): Problem {
  const detail = errors.map((error) => `${error.pointer} ${error.detail}.`).join(' ')
  return new Problem('invalid_request', `Workflow files are in ${workflowsFolder}/: ${detail}`, {
    errors,
  })
}

function faultOf(file: string): string | undefined {
  const names = toPath(file).split('/').slice(2)
  const isInside = names.every((name) => name !== '' && name !== '.' && name !== '..')
  // Git would take a line end or a NUL for the end of a name.
  if (!isInside || file.startsWith('/') || /[\\\x00-\x1f\x7f]/.test(file))
    return `must be a file inside ${workflowsFolder}/`
  return isWorkflowName(file) ? undefined : 'must end in .yml or .yaml'
}

function toPath(file: string): string {
  return file.startsWith(`${workflowsFolder}/`) ? file : `${workflowsFolder}/${file}`
}
