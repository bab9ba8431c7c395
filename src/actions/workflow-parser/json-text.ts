import { data } from '@actions/expressions'
import { requireShort } from './evaluation-budget.ts'

/** Serializes a value like `JSON.stringify` with two spaces. Throws EvaluationError as soon as it is too long. */
export function toJsonText(value: data.ExpressionData): string {
  const pieces: string[] = []
  let length = 0
  write(value, '\n')
  return pieces.join('')

  function put(piece: string): void {
    pieces.push(piece)
    length += piece.length
    requireShort(length)
  }

  function write(value: data.ExpressionData, lineBreak: string): void {
    if (value instanceof data.Array) {
      writeAll('[', value.values(), ']', lineBreak, write)
    } else if (value instanceof data.Dictionary) {
      writeAll('{', value.pairs(), '}', lineBreak, ({ key, value }, inner) => {
        put(`${JSON.stringify(key)}: `)
        write(value, inner)
      })
    } else {
      put(value instanceof data.Null ? 'null' : JSON.stringify(value.value))
    }
  }

  function writeAll<T>(
    opening: string,
    items: T[],
    closing: string,
    lineBreak: string,
    writeItem: (item: T, inner: string) => void,
  ): void {
    const inner = `${lineBreak}  `
    put(opening)
    for (const [index, item] of items.entries()) {
      put(index === 0 ? inner : `,${inner}`)
      writeItem(item, inner)
    }
    put(items.length === 0 ? closing : `${lineBreak}${closing}`)
  }
}
