/** Sends a signal to a process group; one that is gone already, or never was, is fine. */
export function killGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // ESRCH: nobody is left in the group.
  }
}
