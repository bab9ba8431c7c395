const shortestRun = 6
const shortestKeyRun = 16
const fewestKeyCharacters = 16
const fewestCharacters = 8
const words = /example|placeholder|redacted|changeme|xxxxx|01234567|12345678|abcdefgh/i
// So short that random characters may have them, hence at the start of a word only.
const shortWords = /(?<![0-9A-Za-z])(?:[Ii]nsert|INSERT|[Yy]our|YOUR)[_-]/

/** Whether a value that has the form of a credential stands for one: an example, dots, the same character repeated. */
export function isPlaceholder(value: string): boolean {
  return (
    words.test(value) ||
    shortWords.test(value) ||
    new Set(value).size < fewestCharacters ||
    longestRun(value) >= shortestRun
  )
}

/** The same for the base64 of a private key, which may have a few zeros in a row. */
export function isPlaceholderKey(base64: string): boolean {
  return new Set(base64).size < fewestKeyCharacters || longestRun(base64) >= shortestKeyRun
}

/** The length of the longest sequence of one character. */
function longestRun(value: string): number {
  let longest = 0
  let run = 0
  for (let at = 0; at < value.length; at++) {
    run = value[at] === value[at - 1] ? run + 1 : 1
    longest = Math.max(longest, run)
  }
  return longest
}
