import { type CommitPerson, decoderOf, parsePerson } from './commit-object.ts'

/** An annotated tag as it is stored: gitformat-signature, git-mktag(1). */
export type TagObject = { tagger: CommitPerson | undefined; message: string }

/** Parses the content of a tag object. */
export function parseTag(content: Buffer): TagObject {
  const end = content.indexOf('\n\n')
  const head = content.toString('latin1', 0, end === -1 ? content.length : end)
  const lines = head.split('\n')
  const fieldOf = (key: string) =>
    lines.find((line) => line.startsWith(`${key} `))?.slice(key.length + 1)
  const decode = decoderOf(fieldOf('encoding') ?? '')
  const tagger = fieldOf('tagger')
  return {
    tagger: tagger === undefined ? undefined : parsePerson(tagger, decode),
    message: end === -1 ? '' : decode(content.subarray(end + 2)),
  }
}
