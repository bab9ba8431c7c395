/** One line of the result. */
export type Row = {
  what: string
  svc: string
  peer?: string
  ratio?: string
  bound?: string
  /** Whether the bound is kept; undefined where there is none. */
  isKept?: boolean
  /** The values of other servers, with the ratio of svc to each. */
  others?: Partial<Record<Other, string>>
}

/** Further servers, and the minimum for any server. */
export type Other = keyof typeof others

const others = {
  apache: 'Apache',
  daemon: 'git daemon',
  defaults: "peer, git's defaults",
  limit: 'limit',
}

const columns = [
  { title: '', of: (row: Row) => row.what },
  { title: 'svc', of: (row: Row) => row.svc },
  { title: 'peer', of: (row: Row) => row.peer },
  { title: 'svc/peer', of: (row: Row) => row.ratio },
  { title: 'bound', of: (row: Row) => row.bound },
  {
    title: '',
    of: ({ isKept }: Row) => (isKept === undefined ? '' : isKept ? 'kept' : 'NOT KEPT'),
  },
  ...Object.entries(others).map(([name, title]) => ({
    title: `${title} (svc/that)`,
    // `Object.entries` loses the type of the keys.
    of: (row: Row) => row.others?.[name as Other],
  })),
]

/** The result as text: names to the left, numbers to the right. */
export function toTable(rows: Row[]): string {
  const used = columns.filter(({ of }) => rows.some((row) => of(row)))
  const cells = [
    used.map(({ title }) => title),
    ...rows.map((row) => used.map(({ of }) => of(row) ?? '')),
  ]
  const widths = used.map((_, index) => Math.max(...cells.map((line) => line[index]?.length ?? 0)))
  const lines = cells.map((line) =>
    line
      .map((cell, index) =>
        index === 0 ? cell.padEnd(widths[index] ?? 0) : cell.padStart(widths[index] ?? 0),
      )
      .join('  ')
      .trimEnd(),
  )
  return lines.join('\n')
}
