/** The servers that svc is compared with, and itself when idle; in the order of the table's columns. */
export const others = {
  peer: 'peer',
  apache: 'Apache',
  daemon: 'git daemon',
  defaults: "peer, git's defaults",
  cgit: 'cgit',
  gitweb: 'gitweb',
  push: 'git push',
  limit: 'limit',
  idle: 'idle',
}

type Other = keyof typeof others

/** One value for svc, and one for each server that it is compared with. */
export type PerServer<T> = { svc: T } & Partial<Record<Other, T>>

/** Limits svc's value, or its ratio to the value of another column. */
export type Limit = {
  is: 'at most' | 'at least'
  value: number
  of: Other | 'svc'
  /** A value of svc that is low enough with any ratio, in the unit of the row. */
  enough?: number
}

type Limits = {
  /** Holds with a margin in every run, also on two cores. Exceeding it fails the run. */
  bound?: Limit
  /** An aim, for a quiet machine with four cores. It is listed when it is not reached. */
  target?: Limit
}

const mb = 1e6

/** The cost of a change, beside the checkout without it. */
const cost = { bound: atMost(1.15), target: atMost(1.03) } satisfies Limits

/** All rows by part, with their limits; a ratio is that of svc to its peer unless another column is named. */
export const limits = {
  'wire: listing of 1 ref, p50': { bound: atMost(0.1) },
  'wire: listing of 1 ref, 8 connections': { bound: atLeast(5), target: atLeast(10) },
  'wire: listing of 1 ref, 32 connections': { bound: atLeast(5), target: atLeast(10) },
  'wire: listing of 20,000 refs': { bound: atLeast(5) },
  'wire: listing of 1 of 20,000 refs': { bound: atLeast(7), target: atLeast(15) },
  'wire: begin of a push to 100,000 refs': { bound: atLeast(7), target: atLeast(10) },

  'clones: 32 at once': { bound: atMost(1.15, 'limit') },
  'clones: 32 at once, CPU time': { bound: atMost(0.4), target: atMost(0.1) },
  'clones: not cached, CPU time': { bound: atMost(1.5), target: atMost(1) },
  'clones: not cached, first byte': { bound: atMost(0.8), target: atMost(1 / 3) },
  'clones: maintained, CPU time': { bound: atMost(0.8), target: atMost(1 / 3) },
  'clones: maintained, last byte': { bound: atMost(0.9), target: atMost(0.5) },
  'clones: of 256 MiB, CPU time': { bound: atMost(0.3), target: atMost(0.1) },
  'clones: of 256 MiB, last byte': { bound: atMost(0.5), target: atMost(1 / 4) },
  'clones: shallow and cached, CPU time': { bound: atMost(0.1) },
  'clones: of 100 packs, CPU time': {},
  'clones: of 100 packs after maintenance, CPU time': {},
  'clones: of 256 MiB by git, memory': {
    bound: atMost(5, 'peer', 32 * mb),
    target: atMost(1.5, 'peer', 4 * mb),
  },
  'clones: of 256 MiB, memory': { bound: atMost(3, 'peer', 16 * mb), target: atMost(1.5) },
  'clones: memory for each, cached': { bound: atMost(2 * mb, 'svc') },

  'http: ls-remote': { bound: atMost(1.1), target: atMost(0.8) },
  'http: ls-remote, beside a static reply': {
    bound: atMost(1.5, 'limit'),
    target: atMost(1.1, 'limit'),
  },
  'http: fetch without changes': { bound: atMost(1.1), target: atMost(0.8) },
  'http: fetch without changes, beside a static reply': {
    bound: atMost(1.5, 'limit'),
    target: atMost(1.1, 'limit'),
  },
  'http: fetch of a commit': { bound: atMost(1.2), target: atMost(0.75) },
  'http: clone': { bound: atMost(1.4), target: atMost(1.1) },
  'http: push of a commit': { bound: atMost(1.75), target: atMost(0.77) },
  'http: push of a new branch': { bound: atMost(1.75), target: atMost(0.9) },
  'http: push without objects': { bound: atMost(1.75), target: atMost(0.9) },
  'http: push of a commit to 100,000 refs': { bound: atMost(1), target: atMost(0.5) },
  'http: push of 256 MiB': { bound: atMost(1.5), target: atMost(1.1) },
  'http: SHA-256, ls-remote': { bound: atMost(1.1), target: atMost(0.8) },
  'http: SHA-256, clone': { bound: atMost(1.4), target: atMost(1.1) },
  'http: SHA-256, fetch of a commit': { bound: atMost(1.2), target: atMost(0.75) },
  'http: SHA-256, push of a commit': { bound: atMost(1.75), target: atMost(0.77) },

  'ssh: ls-remote': { bound: atMost(0.5), target: atMost(1 / 3) },
  'ssh: fetch without changes': { bound: atMost(0.5), target: atMost(1 / 3) },
  'ssh: fetch of a commit': { bound: atMost(0.6), target: atMost(1 / 4) },
  'ssh: clone': { bound: atMost(1.4), target: atMost(1.1) },
  'ssh: push of a commit': { bound: atMost(0.6), target: atMost(1 / 4) },
  'ssh: clone of 256 MiB': { bound: atMost(2), target: atMost(1.1) },

  'lfs: upload of 1 GiB': { bound: atMost(4) },
  'lfs: upload of 1 GiB, CPU time': { bound: atMost(6) },
  'lfs: download of 1 GiB': { bound: atMost(2.5) },
  'lfs: download of 1 GiB, CPU time': { bound: atMost(5, 'peer', 1500) },

  'load: GET /health, p50': {},
  'load: GET /health, p99': { bound: atMost(50, 'svc'), target: atMost(4, 'svc') },
  'load: GET /health during 32 clones, p99': {
    bound: atMost(100, 'svc'),
    target: atMost(8, 'svc'),
  },
  'load: GET /repos, p50': {},
  'load: GET /repos, p99': { bound: atMost(25, 'idle', 50), target: atMost(5, 'idle', 5) },
  'load: rejected pushes': { bound: atMost(0, 'svc') },

  'growth: listing with many repositories': { bound: atMost(1.25), target: atMost(1.1) },
  'growth: listing of 1 of 100,000 refs': { bound: atMost(1.25), target: atMost(1.1) },

  'import: from a directory': { bound: atMost(1.5), target: atMost(1.2) },
  'import: over HTTP': { bound: atMost(1.5), target: atMost(1.2) },

  'workflows: request to first step': { bound: atMost(300, 'svc'), target: atMost(150, 'svc') },
  'workflows: 1 GB of output': {},
  'workflows: 1 GB of output, growth of svc': { bound: atMost(64 * mb, 'svc') },
  'workflows: 100 runs': { bound: atMost(8) },
  'workflows: restoring a cache of 200 MB': { bound: atMost(1.3) },

  'queue: landing a change, beside one by one': { bound: atMost(1 / 2), target: atMost(1 / 5) },

  'webhooks: response of a push to its delivery': { bound: atMost(50, 'svc') },
  'webhooks: 5,000 deliveries': { bound: atLeast(400, 'svc'), target: atLeast(1000, 'svc') },
  'webhooks: first page of 100,000 deliveries': { bound: atMost(20, 'svc') },

  'nodes: ls-remote': { bound: atMost(1.3), target: atMost(1.05) },
  'nodes: fetch without changes': { bound: atMost(1.3), target: atMost(1.05) },
  'nodes: clone': { bound: atMost(1.3), target: atMost(1.05) },
  'nodes: push of a commit': { bound: atMost(1.75), target: atMost(1.35) },
  'nodes: push of 256 MiB': { bound: atMost(4), target: atMost(2) },
  'nodes: ls-refs after the push of another node, more than the next one': {
    bound: atMost(25, 'svc'),
    target: atMost(10, 'svc'),
  },
  'nodes: first listing of an empty node, from its start': {
    bound: atMost(5000, 'svc'),
    target: atMost(2000, 'svc'),
  },
  'nodes: first clone of an empty node, more than the next one': {
    bound: atMost(1000, 'svc'),
    target: atMost(300, 'svc'),
  },
  'nodes: an empty node gets 256 MiB, beside curl': { bound: atMost(4), target: atMost(1.25) },
  'nodes: listings of 2 beside 1': { bound: atLeast(1.4), target: atLeast(1.8) },
  'nodes: listings of 3 beside 1': { bound: atLeast(1.8), target: atLeast(2.6) },
  'nodes: CPU time of PostgreSQL for a request of a listing': {
    bound: atMost(0.5, 'svc'),
    target: atMost(0.15, 'svc'),
  },

  'browse: tree of the root': { bound: atMost(1, 'cgit'), target: atMost(1 / 3, 'cgit') },
  'browse: tree of the root, again': { bound: atMost(0.5, 'cgit'), target: atMost(0.1, 'cgit') },
  'browse: tree of a folder': { bound: atMost(1, 'cgit'), target: atMost(1 / 3, 'cgit') },
  'browse: tree of a folder, again': { bound: atMost(0.5, 'cgit'), target: atMost(0.1, 'cgit') },
  'browse: log': { bound: atMost(1, 'cgit'), target: atMost(0.4, 'cgit') },
  'browse: log, again': { bound: atMost(0.5, 'cgit'), target: atMost(0.1, 'cgit') },
  'browse: log of a file': { bound: atMost(1.5, 'cgit'), target: atMost(0.4, 'cgit') },
  'browse: log of a file, again': { bound: atMost(0.5, 'cgit'), target: atMost(0.1, 'cgit') },
  'browse: commit with its diff': { bound: atMost(3, 'cgit'), target: atMost(0.4, 'cgit') },
  'browse: commit with its diff, again': {
    bound: atMost(0.5, 'cgit'),
    target: atMost(0.1, 'cgit'),
  },
  'browse: file': { bound: atMost(1, 'cgit'), target: atMost(1 / 3, 'cgit') },
  'browse: file, again': { bound: atMost(1, 'cgit'), target: atMost(1 / 3, 'cgit') },
  'browse: blame': { bound: atMost(1.2, 'cgit'), target: atMost(1 / 1.5, 'cgit') },
  'browse: blame, again': { bound: atMost(0.5, 'cgit'), target: atMost(0.1, 'cgit') },
  'browse: blame of a long file': { bound: atMost(1.3, 'cgit'), target: atMost(1 / 1.5, 'cgit') },
  'browse: blame of a long file, again': {
    bound: atMost(0.5, 'cgit'),
    target: atMost(0.1, 'cgit'),
  },
  'browse: search': { bound: atMost(1, 'gitweb'), target: atMost(0.5, 'gitweb') },
  'browse: search, again': { bound: atMost(0.5, 'gitweb'), target: atMost(0.1, 'gitweb') },
  'browse: commit by a request': { bound: atMost(1, 'push'), target: atMost(0.7, 'push') },
  'browse: GET /health during hostile reads, p99': {
    bound: atMost(25, 'idle', 50),
    target: atMost(5, 'idle', 50),
  },
  'browse: GET /health during hostile reads, longest': {
    bound: atMost(25, 'idle', 250),
    target: atMost(5, 'idle', 50),
  },

  'pages: tree of the root': { bound: atMost(4, 'cgit'), target: atMost(1 / 3, 'cgit') },
  'pages: tree of the root, again': { bound: atMost(1, 'cgit'), target: atMost(0.1, 'cgit') },
  'pages: tree of a folder': { bound: atMost(2.5, 'cgit'), target: atMost(1 / 3, 'cgit') },
  'pages: tree of a folder, again': { bound: atMost(1, 'cgit'), target: atMost(0.1, 'cgit') },
  'pages: log': { bound: atMost(1.5, 'cgit'), target: atMost(0.4, 'cgit') },
  'pages: log, again': { bound: atMost(1, 'cgit'), target: atMost(0.1, 'cgit') },
  'pages: log of a file': { bound: atMost(3, 'cgit'), target: atMost(1 / 1.5, 'cgit') },
  'pages: log of a file, again': { bound: atMost(0.5, 'cgit'), target: atMost(0.1, 'cgit') },
  'pages: commit': { bound: atMost(4, 'cgit'), target: atMost(0.4, 'cgit') },
  'pages: commit, again': { bound: atMost(1.5, 'cgit'), target: atMost(0.1, 'cgit') },
  'pages: file': { bound: atMost(25, 'cgit'), target: atMost(1 / 0.7, 'cgit') },
  'pages: file, again': { bound: atMost(2, 'cgit'), target: atMost(1 / 3, 'cgit') },
  'pages: long file': { bound: atMost(15, 'cgit'), target: atMost(4, 'cgit') },
  'pages: long file, again': { bound: atMost(2, 'cgit'), target: atMost(1 / 3, 'cgit') },
  'pages: blame of a long file': { bound: atMost(1, 'cgit'), target: atMost(1 / 1.5, 'cgit') },
  'pages: blame of a long file, again': {
    bound: atMost(0.1, 'cgit'),
    target: atMost(1 / 20, 'cgit'),
  },
  'pages: GET /health while slow files are opened, p99': {
    bound: atMost(25, 'idle', 50),
    target: atMost(5, 'idle', 50),
  },
  'pages: ls-remote while commits are crawled': {
    bound: atMost(4, 'idle'),
    target: atMost(1.5, 'idle'),
  },
  'pages: listing while commits are crawled': { bound: atMost(10, 'idle', 4) },
  'pages: weight of the list of repositories': { bound: atMost(12_000, 'svc') },
  'pages: weight of a tree': { bound: atMost(15_000, 'svc') },
  'pages: weight of a log': { bound: atMost(15_000, 'svc') },
  'pages: weight of a commit': { bound: atMost(20_000, 'svc') },
  'pages: weight of styles': { bound: atMost(10_000, 'svc'), target: atMost(6000, 'svc') },
  'pages: weight of the script': { bound: atMost(3000, 'svc') },
  'pages: memory when idle, more than without': {
    bound: atMost(8 * mb, 'svc'),
    target: atMost(2 * mb, 'svc'),
  },

  'start: new data directory': { bound: atMost(2000, 'svc'), target: atMost(1000, 'svc') },
  'start: used data directory': { bound: atMost(2000, 'svc'), target: atMost(1000, 'svc') },

  'memory: idle': { bound: atMost(130 * mb, 'svc'), target: atMost(110 * mb, 'svc') },
  'memory: push of 2 GiB, growth of svc': { bound: atMost(64 * mb, 'svc') },
  'memory: push of 2 GiB, growth of svc with git': { bound: atMost(64 * mb, 'svc') },

  'against: GET /repos/:name': cost,
  'against: listing': cost,
  'against: listing, 8 connections': cost,
  'against: listing of 20,000 refs': cost,
  'against: begin of a push': cost,
  'against: shallow clone, cached': cost,
  'against: clone, cached': cost,
  'against: ls-remote': cost,
  'against: fetch without changes': cost,
  'against: clone': cost,
  'against: push of a commit': cost,
  'against: push of a commit to 100,000 refs': cost,
  'against: push of 256 MiB': cost,
  'against: ls-remote over SSH': cost,
  'against: clone over SSH': cost,
  'against: push of a commit over SSH': cost,
  'against: start': cost,
  'against: memory when idle': cost,
} as const satisfies Record<string, Limits>

export type RowName = keyof typeof limits

export type Unit = 'ms' | 'bytes' | 'per second' | 'count'

/** One line of the result. A name that begins with blanks is a detail of the row above. */
export type Row = {
  name: RowName | `  ${string}`
  unit: Unit
  values: PerServer<number>
  rounds?: number
}

/** Medians of what was measured in a number of rounds. */
export type Medians = Required<Pick<Row, 'values' | 'rounds'>>

export type Verdict = 'ok' | 'target not reached' | 'BOUND EXCEEDED'

export function limitsOf({ name }: Row): Limits {
  return name in limits ? limits[name as RowName] : {}
}

/** Undefined where a row has no limit, or could not be measured. */
export function verdictOf(row: Row): Verdict | undefined {
  const { bound, target } = limitsOf(row)
  if (bound && isMet(bound, row) === false) return 'BOUND EXCEEDED'
  if (target && isMet(target, row) === false) return 'target not reached'
  const isMeasured = [bound, target].some((limit) => limit && isMet(limit, row))
  return isMeasured ? 'ok' : undefined
}

function isMet({ is, value, of, enough }: Limit, { values }: Row): boolean | undefined {
  const { svc, [of]: other = Number.NaN } = values
  const measured = of === 'svc' ? svc : svc / other
  if (Number.isNaN(measured)) return undefined
  if (enough !== undefined && svc <= enough) return true
  return is === 'at most' ? measured <= value : measured >= value
}

export function timeRow(name: Row['name'], medians: Medians): Row {
  return { name, unit: 'ms', ...medians }
}

export function bytesRow(name: Row['name'], bytes: number): Row {
  return { name, unit: 'bytes', values: { svc: bytes } }
}

/** Calls a function with the value of each server. */
export function mapServers<T, U>(
  values: PerServer<T>,
  toOther: (value: T, server: keyof PerServer<T>) => U,
): PerServer<U> {
  // `Object.entries` and `Object.fromEntries` lose the type of the keys.
  const entries = Object.entries(values) as [keyof PerServer<T>, T][]
  return Object.fromEntries(
    entries.map(([server, value]) => [server, toOther(value, server)]),
  ) as PerServer<U>
}

function atMost(value: number, of: Limit['of'] = 'peer', enough?: number): Limit {
  return { is: 'at most', value, of, ...(enough !== undefined && { enough }) }
}

function atLeast(value: number, of: Limit['of'] = 'peer'): Limit {
  return { is: 'at least', value, of }
}
