import { printable } from '#base/format.ts'
import { Problem } from '#base/problem.ts'
import type { Ended } from '../process/git-process.ts'

/** The Problem for a failed import; `detail` is a sentence with the reason. */
export function importFailed(detail: string, cause?: unknown): Problem {
  return new Problem('import_failed', detail, { cause })
}

export function importTooLarge(maxBytes: number): Problem {
  return importFailed(`The source is too large: an import may have at most ${maxBytes} bytes.`)
}

/** Size limit of a source's list of refs, which is held in memory: about a million refs. */
export const refsMaxBytes = 64 * 1024 * 1024

export function tooManyRefs(): Problem {
  return importFailed('The list of refs in the source is too large.')
}

/** Throws an `import_failed` for a ref name that was decoded from invalid UTF-8. */
export function requireUtf8(name: string): void {
  if (!name.includes('\ufffd')) return
  throw importFailed(
    `The source has a ref "${printable(name)}", whose name is not UTF-8; rename it there first.`,
  )
}

/**
 * Translates the failure of a git that fetched from a source. `remoteLines` are the messages of the source. Git's own
 * messages contain paths of this server, so clients only see texts for known ones.
 */
export function toImportFault({ exitCode, errorOutput }: Ended, remoteLines: string[]): Error {
  // ssh prints the username, which may be a token.
  const logged = errorOutput.replace(/(?<![^\s'"@/])[^\s'"@/]+@/g, '…@')
  const cause = new Error(`git ended with ${exitCode ?? 'a signal'}: ${logged}`)
  if (/No space left on device|quota exceeded/i.test(errorOutput)) {
    return Object.assign(cause, { code: 'ENOSPC' })
  }
  const known = faults.find(({ pattern }) => pattern.test(errorOutput))
  const match = known?.pattern.exec(errorOutput) ?? []
  const detail =
    known?.explain(...match.slice(1).map((found = '') => printable(found))) ??
    unknownFault(exitCode)
  const messages = remoteLines.map((line) =>
    printable(line.replace(/^remote: */, '')).slice(0, messageMaxLength),
  )
  const remote = messages.length > 0 ? ` It says: "${messages.join(' ').trim()}"` : ''
  return importFailed(detail + remote, cause)
}

const messageMaxLength = 200

type Fault = { pattern: RegExp; explain: (...found: string[]) => string }

// In order of priority: causes before their consequences.
const faults: Fault[] = [
  {
    pattern: /Host key verification failed/i,
    explain: () =>
      'The host key of the source has changed. If that is intended, an administrator must remove its line ' +
      'from the file known_hosts in the data directory.',
  },
  {
    pattern: /gnoring funny ref '(.{1,200}?)'/,
    explain: (name = '') => `The source has a ref "${name}", which is not a valid ref name.`,
  },
  {
    pattern: /object ([0-9a-f]{40,64}): (\w+): (.{1,200})/,
    explain: (id = '', fault = '', description = '') =>
      `The source has an invalid object: ${id}, ${fault}: ${description}.`,
  },
  {
    pattern: /mismatched algorithms|object format|\bsha256\b/,
    explain: () => 'The source has another object format than it says.',
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
    explain: () => 'The source requires credentials, or does not accept the given ones.',
  },
  {
    pattern: /cannot run ssh|ssh: not found|ssh: No such file/i,
    explain: () => 'The server has no ssh program to connect to the source.',
  },
  {
    pattern:
      /(Connection refused|timed out|No route to host|Network is unreachable|Connection reset)/i,
    explain: (reason = '') => `The source cannot be reached: ${reason}.`,
  },
  {
    pattern:
      /not appear to be a git repository|repository not (found|exported)|access denied|not found/i,
    explain: () => 'There is no repository at the source, or it is private.',
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
    explain: () =>
      'The source has refs that cannot be stored, such as a branch that does not point to a commit.',
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
    ? 'The source ended the connection, or git was killed during the import.'
    : 'Git could not fetch from the source.'
}
