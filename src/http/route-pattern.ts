const patterns = new Map<string, RegExp>()

/** What the addresses of a path template match, with its parameters as named groups: `:name` is one segment, `:branch*` the rest. */
export function patternOf(path: string): RegExp {
  const known = patterns.get(path)
  if (known) return known
  const source = path
    .replace(/[.]/g, '\\.')
    .replace(/:(\w+)\*$/, '(?<$1>.+)')
    .replace(/:(\w+)/g, '(?<$1>[^/]+)')
  const pattern = new RegExp(`^${source}$`)
  patterns.set(path, pattern)
  return pattern
}
