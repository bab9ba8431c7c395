const shortestRun = 6
const fewestCharacters = 8
const words =
  /example|placeholder|redacted|changeme|insert[_-]|your[_-]|xxxxx|01234567|12345678|abcdefgh/i

/** Whether a value that has the form of a credential stands for one: an example, dots, the same character repeated. */
export function isPlaceholder(value: string): boolean {
  return words.test(value) || new Set(value).size < fewestCharacters || hasRun(value)
}

function hasRun(value: string): boolean {
  let run = 0
  for (let at = 1; at < value.length; at++) {
    run = value[at] === value[at - 1] ? run + 1 : 0
    if (run >= shortestRun - 1) return true
  }
  return false
}
