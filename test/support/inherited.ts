/** Words before a command with which it inherits a file as descriptors that a shell leaves open: low, high, the highest. */
export function inheriting(path: string): [string, ...string[]] {
  return ['bash', '-c', 'exec 9<"$0" 77<"$0" 251<>"$0"; exec "$@"', path]
}
