/**
 * Compares names by the versions in them: numbers count as such, and a version comes after its pre-releases, so
 * `v1.9` < `v1.10-rc1` < `v1.10`.
 */
export function compareVersions(one: string, other: string): number {
  const [left, right] = [partsOf(one), partsOf(other)]
  for (let at = 0; at < Math.max(left.length, right.length); at++) {
    const order = compareParts(left[at], right[at])
    if (order !== 0) return order
  }
  // With zeros before a number, such as 1.01 and 1.1.
  return compareText(one, other)
}

function partsOf(name: string): string[] {
  return name.match(/\d+|\D+/g) ?? []
}

function compareParts(one: string | undefined, other: string | undefined): number {
  const order = rankOf(one) - rankOf(other)
  if (order !== 0 || one === undefined || other === undefined) return order
  if (!isNumber(one) || !isNumber(other)) return compareText(one, other)
  const [left, right] = [withoutZeros(one), withoutZeros(other)]
  return left.length - right.length || compareText(left, right)
}

/** A pre-release comes before the end of a name, and everything else after it. */
function rankOf(part: string | undefined): number {
  if (part === undefined) return 1
  return part.startsWith('-') ? 0 : 2
}

function isNumber(part: string): boolean {
  return /^\d/.test(part)
}

function withoutZeros(digits: string): string {
  return digits.replace(/^0+(?=\d)/, '')
}

function compareText(one: string, other: string): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}
