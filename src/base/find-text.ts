/** Up to this length the built-in search is fast for any texts. */
const builtInMaxLength = 256

/**
 * Where a text contains another, or -1, in linear time (Knuth, Morris, Pratt): `indexOf` takes a minute for the worst
 * case of a megabyte.
 */
export function findText(text: string, part: string, start = 0): number {
  if (part.length <= builtInMaxLength) return text.indexOf(part, start)
  const borders = bordersOf(part)
  let matched = 0
  for (let index = start; index < text.length; index++) {
    const character = text.charCodeAt(index)
    while (matched > 0 && part.charCodeAt(matched) !== character)
      matched = borders[matched - 1] ?? 0
    if (part.charCodeAt(matched) === character) matched++
    if (matched === part.length) return index + 1 - matched
  }
  return -1
}

/** The failure function: for each prefix, the length of its longest proper border. */
function bordersOf(text: string): Int32Array {
  const borders = new Int32Array(text.length)
  let length = 0
  for (let index = 1; index < text.length; index++) {
    const character = text.charCodeAt(index)
    while (length > 0 && text.charCodeAt(length) !== character) length = borders[length - 1] ?? 0
    if (text.charCodeAt(length) === character) length++
    borders[index] = length
  }
  return borders
}
