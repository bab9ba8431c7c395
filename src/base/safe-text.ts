/** JSON for programs, which may still be shown on a terminal: no control or invisible character is in it as it is. */
export function toSafeJson(value: unknown, indent = 2): string {
  const text = JSON.stringify(value, null, indent)
  const escaped = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    character === '\n'
      ? character
      : [...Array(character.length).keys()].map((index) => toEscape(character, index)).join(''),
  )
  return `${escaped}\n`
}

/** Text of many lines, such as a log, without what would control a terminal. */
export function toSafeLines(text: string): string {
  return (
    text
      // Colours and other control sequences: ECMA-48, 5.4.
      .replace(/\x1b\[[0-?]*[ -/]*[@-~]/g, '')
      .replace(/\r\n/g, '\n')
      .replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?')
  )
}

function toEscape(character: string, index: number): string {
  return `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`
}
