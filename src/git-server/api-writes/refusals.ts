import { Problem } from '#base/problem.ts'
import type { PushReport } from '#git/protocol/push-report.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { invalid } from '#http/validation.ts'

const textMaxLength = 500

/** The Problem of a ref that has another value than the client expected. */
export function refMoved(ref: string, head: string): Problem {
  const now = head === zeroId ? 'does not exist' : `is ${head}`
  const detail = `${ref} ${now}, so nothing was changed. Look at what it is now, and send the request again on top of that.`
  return new Problem('ref_moved', detail, { members: { head } })
}

/** The Problem of an update that git refuses although the ref has its old value. */
export function toUpdateProblem(ref: string, reason: string, text: string): Problem {
  const isNameConflict = [' exists; cannot create ', 'is a directory of another ref'].some(
    (words) => text.includes(words) || reason.includes(words),
  )
  const detail = isNameConflict
    ? `The name ${ref} is a directory of another ref, or the other way round; choose another name.`
    : `Git refuses to update ${ref}: ${shortened(reason)}.`
  return new Problem('update_refused', detail)
}

// Messages of Git's fsck.c that a client may bring about, by their ids.
const faults: Record<string, string> = {
  hasDotgit: 'it has a name that is `.git` for Git, or would be on some file systems',
  hasDot: 'it has the name `.`',
  hasDotdot: 'it has the name `..`',
  gitmodulesSymlink: '`.gitmodules` is a symbolic link',
  gitattributesSymlink: '`.gitattributes` is a symbolic link',
}

/** The Problem of objects that git does not accept; `paths` has the paths of new trees and files by their ids. */
export function toObjectsProblem(
  { text, unpackError = '' }: PushReport,
  paths: ReadonlyMap<string, string>,
): Problem {
  if (/No space left|quota exceeded/i.test(text))
    return new Problem('storage_full', 'The server has no space left; nothing was changed.')
  if (/out of memory/i.test(text)) {
    const detail = 'Git needed more memory than a push may use; make smaller commits.'
    return new Problem('git_limit_exceeded', detail)
  }
  const [, id = '', fault = '', words = ''] =
    /object ([0-9a-f]{40,64}): (\w+): ([^\n]*)/.exec(text) ?? []
  if (fault === '') {
    const reason = shortened(text.trim() || unpackError)
    return new Problem('objects_refused', `Git refuses the new objects: ${reason}`)
  }
  const path = paths.get(id)
  const place = path === undefined ? `the object ${id}` : path === '' ? 'the root' : `"${path}"`
  const reason = faults[fault] ?? shortened(words)
  return new Problem('objects_refused', `Git refuses ${place}: ${reason} (${fault}).`)
}

function shortened(text: string): string {
  return text.length > textMaxLength ? `${text.slice(0, textMaxLength).toWellFormed()}…` : text
}

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
