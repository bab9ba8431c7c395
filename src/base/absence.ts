/** For a `catch`: what is not there is undefined, and any other error is thrown again. */
export function ignoreAbsence(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
  throw error
}
