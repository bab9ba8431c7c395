/** SQLITE_BUSY: https://sqlite.org/rescode.html#busy */
export const sqliteBusy = 5

/** Whether somebody else has what SQLite was to lock. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === sqliteBusy
}
