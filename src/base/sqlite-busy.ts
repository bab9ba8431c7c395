/** SQLITE_BUSY: https://sqlite.org/rescode.html#busy */
export const sqliteBusy = 5

/** Whether SQLite failed because another connection holds the lock. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === sqliteBusy
}
