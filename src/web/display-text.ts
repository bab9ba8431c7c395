/** A number with its digits in groups: `1,234`. */
export function grouped(count: number): string {
  return count.toLocaleString('en-US')
}

/** A number with its noun: `1 file`, `1,234 files`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`
}

/** The id of an object as people know it. */
export function shortId(id: string): string {
  return id.slice(0, 7)
}
