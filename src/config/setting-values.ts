export const kib = 1024
export const mib = 1024 * kib
export const gib = 1024 * mib
const units: Record<string, number> = { '': 1, KiB: kib, MiB: mib, GiB: gib }

/** Reads a whole number in digits. */
export function wholeNumber(least: number, most: number) {
  return (text: string): number | undefined => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    return value >= least && value <= most ? value : undefined
  }
}

/** Reads a number of bytes, and says so. */
export function size(least: number, most: number) {
  const accepts = `a number of bytes, or one with KiB, MiB or GiB, from ${toSize(least)} to ${toSize(most)}`
  const parse = (text: string): number | undefined => {
    const [, digits = '', unit = ''] = /^(\d{1,15})(KiB|MiB|GiB|)$/.exec(text) ?? []
    const value = digits === '' ? Number.NaN : Number(digits) * (units[unit] ?? Number.NaN)
    return value >= least && value <= most ? value : undefined
  }
  return { accepts, parse }
}

function toSize(bytes: number): string {
  const [unit = '', factor = 1] =
    Object.entries(units).findLast(([, one]) => bytes % one === 0 && bytes >= one) ?? []
  return `${bytes / factor}${unit}`
}

export function parseHost(text: string): string | undefined {
  return /^[\w.:-]+$/.test(text) ? text : undefined
}

export function parseBaseUrl(text: string): string | undefined {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) return undefined
  if (url.username || url.password || url.search || url.hash) return undefined
  return url.href.replace(/\/+$/, '')
}
