const absenceCodes: ReadonlySet<unknown> = new Set(['ENOENT', 'ENOTDIR', 'EISDIR', 'ENAMETOOLONG'])

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

/**
 * Whether an error means that there is no file at a path: nothing there, a directory, a parent that is a file, or a name
 * that is too long for one.
 */
export function isAbsence(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code !== undefined && absenceCodes.has(code)
}
