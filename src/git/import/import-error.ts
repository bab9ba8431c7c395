import { printable } from '../../base/format.ts'
import { Problem } from '../../base/problem.ts'
import type { Ended } from '../process/git-process.ts'

/** An import that cannot be: `detail` says why, in a sentence. */
export function importFailed(detail: string, cause?: unknown): Problem {
  return new Problem('import_failed', detail, { cause })
}

export function importTooLarge(maxBytes: number): Problem {
  return importFailed(`The source is too large: an import may have at most ${maxBytes} bytes.`)
}

/** Most bytes that the list of a source's refs may have: about a million refs, all of which are held in memory at once. */
export const refsMaxBytes = 64 * 1024 * 1024

export function tooManyRefs(): Problem {
  return importFailed('The list of refs in the source is too large.')
}

/** Throws an `import_failed` for a ref name that is not UTF-8, and was read as if it were. */
export function requireUtf8(name: string): void {
  if (!name.includes('\ufffd')) return
  throw importFailed(
    `The source has a ref "${printable(name)}", whose name is not UTF-8; rename it there first.`,
  )
}

/**
 * What a git that could not fetch from a source means. `said` is what the source itself told, line by line.
 * Git's own words name paths of this server, so only those that are known are repeated.
 */
export function toImportFault({ exitCode, complaint }: Ended, said: string[]): Error {
  // A user's name may be a token, and ssh repeats it.
  const logged = complaint.replace(/(?<![^\s'"@/])[^\s'"@/]+@/g, '…@')
  const cause = new Error(`git ended with ${exitCode ?? 'a signal'}: ${logged}`)
  if (/No space left on device|quota exceeded/i.test(complaint)) {
    return Object.assign(cause, { code: 'ENOSPC' })
  }
  const known = faults.find(({ pattern }) => pattern.test(complaint))
  const match = known?.pattern.exec(complaint) ?? []
  const detail =
    known?.explain(...match.slice(1).map((found = '') => printable(found))) ??
    unknownFault(exitCode)
  const words = said.map((line) =>
    printable(line.replace(/^remote: */, '')).slice(0, saidMaxLength),
  )
  const told = words.length > 0 ? ` It says: "${words.join(' ').trim()}"` : ''
  return importFailed(detail + told, cause)
}

const saidMaxLength = 200

type Fault = { pattern: RegExp; explain: (...found: string[]) => string }

// In the order in which they are looked for: a cause is told before what follows from it.
const faults: Fault[] = [
  {
    pattern: /Host key verification failed/i,
    explain: () =>
      'The host key of the source is not the one that it had before; if it was changed on purpose, whoever ' +
      'runs the service removes its line from the file known_hosts of the data directory.',
  },
  {
    pattern: /gnoring funny ref '(.{1,200}?)'/,
    explain: (name = '') => `The source has a ref "${name}", which is no ref name.`,
  },
  {
    pattern: /object ([0-9a-f]{40}): (\w+): (.{1,200})/,
    explain: (id = '', fault = '', what = '') =>
      `The source has an object that is refused: ${id}, ${fault}: ${what}.`,
  },
  {
    pattern: /mismatched algorithms|object format|\bsha256\b/,
    explain: () => 'The source is of the object format SHA-256; repositories here are SHA-1.',
  },
  {
    pattern: /shallow update not allowed|attempt to fetch\/clone from a shallow repository/,
    explain: () => 'The source is a shallow clone; fetch all of its history first.',
  },
  {
    pattern: /out of memory|malloc|mmap failed|Cannot allocate memory/i,
    explain: () => 'The source has objects that take too much memory.',
  },
  {
    pattern: /Permission denied|Authentication failed|could not read (Username|Password)/i,
    explain: () => 'The source asks for credentials, or does not accept those that were given.',
  },
  {
    pattern: /cannot run ssh|ssh: not found|ssh: No such file/i,
    explain: () => 'The server has no ssh program to reach the source with.',
  },
  {
    pattern:
      /(Connection refused|timed out|No route to host|Network is unreachable|Connection reset)/i,
    explain: (what = '') => `The source cannot be reached: ${what}.`,
  },
  {
    pattern:
      /not appear to be a git repository|repository not (found|exported)|access denied|not found/i,
    explain: () => 'There is no repository at the source, or it is not to be seen.',
  },
  {
    pattern:
      /did not send all necessary objects|unexpected line in|packed-refs|missing (blob|tree|commit)|bad object|ignoring broken ref|unable to (read|parse)|could not read [0-9a-f]{7}|failed to traverse|not our ref|corrupt|inflate|bad (pack|tree)/i,
    explain: () =>
      'The source is damaged, shallow or incomplete: objects of its history are missing or broken.',
  },
  {
    pattern:
      /trying to write non-commit object|cannot lock ref|unable to update local ref|cannot update ref/i,
    explain: () => 'The source has refs that cannot be stored, such as a branch that is no commit.',
  },
  {
    pattern: /remote error: (.{1,200})/,
    explain: (words = '') => `The source refuses: "${words}"`,
  },
  {
    pattern:
      /early EOF|hung up|transfer closed|Could not read from remote repository|content unencoding|unexpected disconnect|RPC failed|invalid index-pack|protocol error|bad line|bad band|expected |malformed/i,
    explain: () => 'The source ended the connection, or does not speak the Git protocol.',
  },
]

function unknownFault(exitCode: number | null): string {
  return exitCode === null
    ? 'The source ended the connection, or git was ended in the middle of the import.'
    : 'Git could not fetch from the source.'
}
