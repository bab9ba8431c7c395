import { type Limit, limitsOf, others, type Row, type Unit, verdictOf } from './rows.ts'

/** Prints a line about the progress of the run. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** Prints all rows as a table, and then the exceeded bounds and the targets that are not reached. */
export function printRows(rows: Row[]): void {
  print(
    `\nIn parentheses: the ratio of svc to it. A bound or target without a unit is such a ratio.\n`,
  )
  print(`${toTable(rows)}\n`)
  for (const [verdict, title] of lists) {
    const names = rows.filter((row) => verdictOf(row) === verdict).map(({ name }) => `- ${name}`)
    if (names.length > 0) print(`${title}:\n${names.join('\n')}\n`)
  }
}

const lists = [
  ['BOUND EXCEEDED', 'Exceeded bounds'],
  ['target not reached', 'Targets not reached'],
] as const

const columns = [
  { title: '', of: ({ name }: Row) => name },
  { title: 'svc', of: ({ values, unit }: Row) => format(values.svc, unit) },
  ...Object.entries(others).map(([server, title]) => ({
    title,
    of({ values, unit }: Row) {
      // `Object.entries` loses the type of the keys.
      const value = values[server as keyof typeof others]
      return value === undefined
        ? ''
        : `${format(value, unit)} (${(values.svc / value).toFixed(2)})`
    },
  })),
  { title: 'bound', of: (row: Row) => formatLimit(limitsOf(row).bound, row.unit) },
  { title: 'target', of: (row: Row) => formatLimit(limitsOf(row).target, row.unit) },
  { title: 'rounds', of: ({ rounds }: Row) => String(rounds ?? '') },
  { title: '', of: (row: Row) => verdictOf(row) ?? '' },
]

/** Names to the left, numbers to the right; empty columns are omitted. */
function toTable(rows: Row[]): string {
  const used = columns.filter(({ of }) => rows.some((row) => of(row) !== ''))
  const lines = [
    used.map(({ title }) => title),
    ...rows.map((row) => used.map(({ of }) => of(row))),
  ]
  const widths = used.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)))
  const pad = (cell: string, index: number) =>
    index === 0 ? cell.padEnd(widths[index] ?? 0) : cell.padStart(widths[index] ?? 0)
  return lines.map((line) => line.map(pad).join('  ').trimEnd()).join('\n')
}

function formatLimit(limit: Limit | undefined, unit: Unit): string {
  if (!limit) return ''
  const { is, of, value, enough } = limit
  const sign = is === 'at most' ? '<=' : '>='
  const amount = of === 'svc' ? format(value, unit) : value.toFixed(2)
  const other = of === 'svc' || of === 'peer' ? '' : ` of ${of}`
  return `${sign} ${amount}${other}${enough === undefined ? '' : ` or ${format(enough, unit)}`}`
}

function format(value: number, unit: Unit): string {
  if (Number.isNaN(value)) return 'not counted'
  switch (unit) {
    case 'ms':
      return `${value.toFixed(value < 1 ? 2 : value < 100 ? 1 : 0)} ms`
    case 'bytes':
      return `${(value / 1e6).toFixed(1)} MB`
    case 'per second':
      return `${value.toFixed(value < 100 ? 1 : 0)}/s`
    case 'count':
      return String(value)
  }
}
