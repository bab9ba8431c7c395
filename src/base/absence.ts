/** For a `catch`: returns undefined for ENOENT and rethrows any other error. */
export function ignoreAbsence(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
  throw error
}

/** For a `catch`: ignores EEXIST and rethrows any other error. */
export function ignoreExistence(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return undefined
  throw error
}

/** Whether an error means that there is no file at a path: nothing there, a directory, or a parent that is a file. */
export function isAbsence(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code === 'ENOENT' || code === 'ENOTDIR' || code === 'EISDIR'
}
