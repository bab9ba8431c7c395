import { splitCommit } from './commit-object.ts'

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
