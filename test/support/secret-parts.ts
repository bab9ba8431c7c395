import fc from 'fast-check'

const characters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+=_.-']
const partLength = 6

/** Values of secrets: one or several lines, of characters that no padding of a test has. */
export const secretValues = fc
  .array(
    fc
      .array(fc.constantFrom(...characters), { minLength: 10, maxLength: 60, size: 'max' })
      .map((line) => line.join('')),
    { minLength: 1, maxLength: 3 },
  )
  .map((lines) => lines.join('\n'))

/** The first part of a secret, six characters of one of its lines, that shows in a text; undefined when none does. */
export function shownPart(text: string, secret: string): string | undefined {
  for (const line of secret.split('\n')) {
    for (let start = 0; start + partLength <= line.length; start++) {
      const part = line.slice(start, start + partLength)
      if (text.includes(part)) return part
    }
  }
  return undefined
}
