const patterns = new Map<string, RegExp>()

/** Compiles a path template to a pattern with its parameters as named groups: `:name` is one segment, `:branch*` the rest. */
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

type Template = { path: string }

/** Whether the first of two overlapping templates takes precedence: `/repos/import` precedes `/repos/:name`. */
export function precedes(one: Template, other: Template): boolean {
  const [own, others] = [one.path.split('/'), other.path.split('/')]
  const isOpenEnded = `${one.path} ${other.path}`.includes('*')
  if (own.length !== others.length && !isOpenEnded) return false
  for (const [at, segment] of own.entries()) {
    const against = others[at]
    if (against === undefined) return false
    const [rank, rankAgainst] = [rankOf(segment), rankOf(against)]
    if (rank !== rankAgainst) return rank < rankAgainst
    if (rank === 0 && segment !== against) return false
  }
  return false
}

// A constant, then a parameter, then the rest of the path.
function rankOf(segment: string): number {
  if (!segment.startsWith(':')) return 0
  return segment.endsWith('*') ? 2 : 1
}
