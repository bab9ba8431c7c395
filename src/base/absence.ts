/** For a `catch`: what is not there is undefined, and any other error is thrown again. */
export function ignoreAbsence(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
  throw error
}

/** For a `catch`: what is there already is fine, and any other error is thrown again. */
export function ignoreExistence(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return undefined
  throw error
}

/** Whether an error says that a file is not there, or a folder in its place, or a file in the place of its folder. */
export function isAbsence(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code === 'ENOENT' || code === 'ENOTDIR' || code === 'EISDIR'
}
