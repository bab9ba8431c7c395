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

/**
 * For a `catch`: returns a value where there is no file, and rethrows any other error. Files of a live repository come and
 * go between two reads, and the path of a ref may become a folder.
 */
export function absentAs<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (isAbsence(error)) return value
    throw error
  }
}
