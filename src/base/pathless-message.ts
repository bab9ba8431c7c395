import { basename } from 'node:path'

/** Returns an error's message with paths shortened to their base names, so it does not reveal the server's folders. */
export function pathlessMessage(error: Error): string {
  if (!('path' in error) || typeof error.path !== 'string') return error.message
  const shortened = error.message.replaceAll(error.path, basename(error.path))
  if (!('dest' in error) || typeof error.dest !== 'string') return shortened
  return shortened.replaceAll(error.dest, basename(error.dest))
}
