const zero = 0x30
const nine = 0x39
const hyphen = 0x2d

/**
 * Compares names by the versions in them: numbers count as such, and a version comes after its pre-releases, so
 * `v1.9` < `v1.10-rc1` < `v1.10`.
 */
export function compareVersions(one: string, other: string): number {
  let [left, right] = [0, 0]
  while (left < one.length || right < other.length) {
    const leftEnd = endOfPart(one, left)
    const rightEnd = endOfPart(other, right)
    const isNumber = isDigitAt(one, left) && isDigitAt(other, right)
    const order =
      rankAt(one, left) - rankAt(other, right) ||
      (isNumber
        ? compareNumbers(one.slice(left, leftEnd), other.slice(right, rightEnd))
        : compareText(one.slice(left, leftEnd), other.slice(right, rightEnd)))
    if (order !== 0) return order
    left = leftEnd
    right = rightEnd
  }
  // With zeros before a number, such as 1.01 and 1.1.
  return compareText(one, other)
}

/** Where a number ends, or the text between numbers. */
function endOfPart(name: string, start: number): number {
  let end = start
  while (end < name.length && isDigitAt(name, end) === isDigitAt(name, start)) end++
  return end
}

function isDigitAt(name: string, at: number): boolean {
  const code = name.charCodeAt(at)
  return code >= zero && code <= nine
}

/** A pre-release comes before the end of a name, and everything else after it. */
function rankAt(name: string, at: number): number {
  if (at === name.length) return 1
  return name.charCodeAt(at) === hyphen ? 0 : 2
}

function compareNumbers(one: string, other: string): number {
  const [left, right] = [withoutZeros(one), withoutZeros(other)]
  return left.length - right.length || compareText(left, right)
}

function withoutZeros(digits: string): string {
  return digits.charCodeAt(0) === zero ? digits.replace(/^0+(?=\d)/, '') : digits
}

function compareText(one: string, other: string): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}
