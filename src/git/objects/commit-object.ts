import { objectIdPattern } from '#base/object-id.ts'
/** A commit as it is stored: gitformat-commit. Texts are decoded by its `encoding`. */
export type CommitObject = {
  tree: string
  parents: string[]
  author: CommitPerson
  committer: CommitPerson
  message: string
}

/** Who made a commit, and when: in milliseconds since the Unix epoch, with the time zone as `+0100`. */
export type CommitPerson = { name: string; email: string; at: number; timeZone: string }

/** Parses the content of a commit object. What is malformed becomes empty, 0 or `+0000`. */
export function parseCommit(content: Buffer): CommitObject {
  const { headerOf, parents, message } = splitCommit(content)
  const decode = decoderOf(headerOf('encoding') ?? '')
  const personOf = (key: string) => parsePerson(headerOf(key) ?? '', decode)
  return {
    tree: headerOf('tree') ?? '',
    parents,
    author: personOf('author'),
    committer: personOf('committer'),
    message: decode(message),
  }
}

const commitHead = new RegExp(
  `^tree (${objectIdPattern})\\n((?:parent ${objectIdPattern}\\n)*)author`,
)

/**
 * The tree and the parents of a commit. Git also reads ids in capitals; such a commit has an empty tree and no parents here,
 * so that it proves nothing.
 */
export function headOfCommit(content: Buffer): { tree: string; parents: string[] } {
  const [, tree = '', lines = ''] = commitHead.exec(content.toString('latin1')) ?? []
  return { tree, parents: [...lines.matchAll(/[0-9a-f]{40,64}/g)].map(([id]) => id) }
}

/** A commit that is made again. Author and message are bytes, in UTF-8 if their encoding was known. */
export type RawCommit = { tree: string; parents: string[]; author: Buffer; message: Buffer }

/** Parses a commit object: https://git-scm.com/docs/gitformat-commit. Signatures and other headers are left out. */
export function parseRawCommit(content: Buffer): RawCommit {
  const { headerOf, parents, message } = splitCommit(content)
  const convert = converterOf(headerOf('encoding') ?? 'utf-8')
  return {
    tree: headerOf('tree') ?? '',
    parents,
    author: convert(Buffer.from(headerOf('author') ?? '', 'latin1')),
    message: withoutBlankStart(convert(message)),
  }
}

/** The headers of a commit object, as bytes (latin1), and its message. */
function splitCommit(content: Buffer): {
  /** The first header with a key. */
  headerOf: (key: string) => string | undefined
  parents: string[]
  message: Buffer
} {
  const end = content.indexOf('\n\n')
  const lines = content.toString('latin1', 0, end === -1 ? content.length : end).split('\n')
  return {
    headerOf: (key) => lines.find((line) => line.startsWith(`${key} `))?.slice(key.length + 1),
    parents: lines
      .filter((line) => line.startsWith('parent '))
      .map((line) => line.slice('parent '.length)),
    message: end === -1 ? Buffer.alloc(0) : content.subarray(end + 2),
  }
}

/**
 * Parses `Ada <ada@example.com> 1700000000 +0100`, given as bytes (latin1). Of several addresses, the first counts, and the
 * time follows the last.
 */
export function parsePerson(line: string, decode: (bytes: Buffer) => string): CommitPerson {
  const open = line.indexOf('<')
  const close = open === -1 ? -1 : line.indexOf('>', open)
  const isComplete = close !== -1
  const text = (from: number, to: number) => decode(Buffer.from(line.slice(from, to), 'latin1'))
  const when = /(?:^|[ >])(-?\d{1,12}) ([+-]\d{4,})/.exec(line.slice(line.lastIndexOf('>') + 1))
  const [, seconds = '0', timeZone = '+0000'] = when ?? []
  return {
    name: isComplete ? text(0, open).trimEnd() : text(0, when?.index ?? line.length),
    email: isComplete ? text(open + 1, close) : '',
    at: Number(seconds) * 1000,
    timeZone,
  }
}

/** The decoder of an encoding that a commit names; UTF-8 for none, and for one that is not known. */
export function decoderOf(encoding: string): (bytes: Buffer) => string {
  try {
    const decoder = new TextDecoder(encoding || 'utf-8', { ignoreBOM: true })
    return (bytes) => decoder.decode(bytes)
  } catch {
    return (bytes) => bytes.toString('utf8')
  }
}

// Like Git, keeps text whose encoding it does not know.
function converterOf(encoding: string): (bytes: Buffer) => Buffer {
  if (/^utf-?8$/i.test(encoding)) return (bytes) => bytes
  return (bytes) => {
    try {
      return Buffer.from(new TextDecoder(encoding, { fatal: true }).decode(bytes))
    } catch {
      return bytes
    }
  }
}

// Git skips blank lines before the subject, and takes a NUL for the end.
function withoutBlankStart(message: Buffer): Buffer {
  const nul = message.indexOf(0)
  const text = nul === -1 ? message : message.subarray(0, nul)
  let start = 0
  for (let at = 0; at < text.length; at++) {
    const byte = text[at] ?? 0
    if (byte === 0x0a) start = at + 1
    else if (byte !== 0x20 && !(byte >= 0x09 && byte <= 0x0d)) break
  }
  return text.subarray(start)
}

/** A commit; times are in ISO 8601. */
export type CommitSummary = {
  id: string
  treeId: string
  message: string
  author: Person
  committer: Person
  /** The paths that it changed, as far as they are known. */
  files?: ChangedFiles
  /** Whether its texts and files were read without omissions. */
  isComplete?: boolean
}

export type ChangedFiles = { added: string[]; removed: string[]; modified: string[] }

type Person = { name: string; email: string; at: string }

/** Formats the time of a commit, in seconds. An invalid one becomes the epoch. */
export function toTime(seconds: string): string {
  const at = new Date(Number(seconds) * 1000)
  return (Number.isNaN(at.getTime()) ? new Date(0) : at).toISOString()
}
