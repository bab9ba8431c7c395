import { invalid } from '#http/validation.ts'

/** Throws `invalid_request` for a message that Git cannot store. */
export function assertMessage(message: string): void {
  if (message.isWellFormed() && !message.includes('\0') && message.trim() !== '') return
  const detail = 'must have text, without NUL and lone surrogates.'
  throw invalid([{ pointer: '/message', detail }])
}

/** The message with a line feed at its end, as `git commit` leaves it. */
export function toMessage(message: string): string {
  return message.endsWith('\n') ? message : `${message}\n`
}
