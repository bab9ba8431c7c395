/** Up to this length the built-in search is quick whatever the texts are. */
const shortMax = 256

/**
 * Whether a text contains another, in time that grows with their lengths: `includes` takes a minute for the worst of
 * a megabyte. (Knuth, Morris, Pratt.)
 */
export function containsText(text: string, part: string): boolean {
  if (part.length <= shortMax) return text.includes(part)
  const borders = bordersOf(part)
  let matched = 0
  for (let index = 0; index < text.length; index++) {
    const character = text.charCodeAt(index)
    while (matched > 0 && part.charCodeAt(matched) !== character)
      matched = borders[matched - 1] ?? 0
    if (part.charCodeAt(matched) === character) matched++
    if (matched === part.length) return true
  }
  return false
}

/** For each beginning of a text the length of its longest true beginning that is also its end. */
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
