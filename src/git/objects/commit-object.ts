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

/** The headers of a commit object, as bytes (latin1), and its message. */
export function splitCommit(content: Buffer): {
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
