import { pathlessMessage } from '#base/pathless-message.ts'
import { ExpressionError } from '../workflow-parser/expression-error.ts'

/** Formats an error for users, with its position in the workflow file if it has one. */
export function toFault(error: unknown): string {
  if (error instanceof ExpressionError) {
    const { file, line, column } = error.position
    return `${file}:${line}:${column}: ${error.message}`
  }
  return error instanceof Error ? pathlessMessage(error) : String(error)
}
