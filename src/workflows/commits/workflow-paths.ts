import type { SourceFile } from '#actions/workflow-parser/workflow.ts'
import {
  githubFolder,
  isWorkflowName,
  workflowsFolder,
} from '#actions/workflow-parser/workflow-folders.ts'
import { type FieldError, Problem } from '#base/problem.ts'

/** The folders whose files can be checked, the preferred one first; those of GitHub's do not run. */
export const checkedFolders = [workflowsFolder, githubFolder] as const

/** Normalizes paths such as `ci.yml` or `.svc/workflows/ci.yml`. Throws `invalid_request` for a path outside the folder. */
export function toWorkflowPaths(files: string[]): string[] {
  assertInside(files, (index) => `/files/${index}`)
  return [...new Set(files.map((file) => toPath(file)))]
}

/** Normalizes the path at a place of a body. Throws in the same way. */
export function toWorkflowPath(file: string, pointer: string): string {
  assertInside([file], () => pointer)
  return toPath(file)
}

/** Normalizes paths of files to check, which may also be in GitHub's folder. Throws in the same way. */
export function toCheckedPaths(files: string[]): string[] {
  assertInside(files, (index) => `/files/${index}`)
  return [...new Set(files.map((file) => toPath(file, checkedFolders)))]
}

/** Normalizes the paths of files whose contents are in the request. Throws `invalid_request` for duplicates, too. */
export function toGivenFiles(contents: SourceFile[]): SourceFile[] {
  const pointer = (index: number) => `/contents/${index}/path`
  assertInside(
    contents.map(({ path }) => path),
    pointer,
  )
  const given = contents.map(({ path, text }) => ({ path: toPath(path, checkedFolders), text }))
  const again = given.findIndex(({ path }, index) =>
    given.some((one, at) => at < index && one.path === path),
  )
  if (again !== -1) throw invalidPaths([{ pointer: pointer(again), detail: 'is given twice' }])
  return given
}

function assertInside(files: string[], pointer: (index: number) => string): void {
  const errors = files.flatMap((file, index) => {
    const detail = faultOf(file)
    return detail === undefined ? [] : [{ pointer: pointer(index), detail }]
  })
  if (errors.length > 0) throw invalidPaths(errors)
}

function invalidPaths(errors: FieldError[]): Problem {
  const detail = errors.map((error) => `${error.pointer} ${error.detail}.`).join(' ')
  return new Problem('invalid_request', `Workflow files are in ${workflowsFolder}/: ${detail}`, {
    errors,
  })
}

function faultOf(file: string): string | undefined {
  const names = toPath(file).split('/').slice(2)
  const isInside = names.every((name) => name !== '' && name !== '.' && name !== '..')
  // Git reads a line feed or a NUL as the end of a name.
  if (!isInside || file.startsWith('/') || /[\\\x00-\x1f\x7f]/.test(file))
    return `must be a file inside ${workflowsFolder}/`
  return isWorkflowName(file) ? undefined : 'must end in .yml or .yaml'
}

function toPath(file: string, folders: readonly string[] = [workflowsFolder]): string {
  const isComplete = folders.some((folder) => file.startsWith(`${folder}/`))
  return isComplete ? file : `${workflowsFolder}/${file}`
}
