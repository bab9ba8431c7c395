import { basename } from 'node:path'

/** The message of an error, without the folders of this machine that the system's own errors name. */
export function pathlessMessage(error: Error): string {
  if (!('path' in error) || typeof error.path !== 'string') return error.message
  const shortened = error.message.replaceAll(error.path, basename(error.path))
  if (!('dest' in error) || typeof error.dest !== 'string') return shortened
  return shortened.replaceAll(error.dest, basename(error.dest))
}
