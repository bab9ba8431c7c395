/** One line of the result. */
export type Row = {
  what: string
  svc: string
  peer?: string
  ratio?: string
  bound?: string
  /** Whether the bound is kept; undefined where there is none. */
  isKept?: boolean
  defaults?: string
  defaultsRatio?: string
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
  { title: "peer, git's defaults", of: (row: Row) => row.defaults },
  { title: 'svc/that', of: (row: Row) => row.defaultsRatio },
]

/** The result as text: names to the left, numbers to the right. */
export function toTable(rows: Row[]): string {
  const cells = [
    columns.map(({ title }) => title),
    ...rows.map((row) => columns.map(({ of }) => of(row) ?? '')),
  ]
  const widths = columns.map((_, index) =>
    Math.max(...cells.map((line) => line[index]?.length ?? 0)),
  )
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
