import { createHash } from 'node:crypto'
import { formatOf, type ObjectFormat } from '#base/object-id.ts'

/** An object that is not in a repository yet. */
export type NewObject = { id: string; type: 'commit' | 'tree' | 'blob'; content: Buffer }

/** Who made a commit and when: `Ada <ada@example.com> 1795316884 +0100`, as Git stores it. */
export type Identity = { name: string; email: string; seconds: number; offset: string }

/** The fields of a commit. Texts of identities and message are bytes. */
export type CommitFields = {
  tree: string
  parents: readonly string[]
  author: string | Buffer
  committer: string
  message: string | Buffer
}

export function toObject(
  type: NewObject['type'],
  content: Buffer,
  format: ObjectFormat,
): NewObject {
  return { id: idOfObject(type, content, format), type, content }
}

/** The id of the tree without entries, which git knows in every repository. */
export function emptyTreeId(format: ObjectFormat): string {
  return idOfObject('tree', Buffer.alloc(0), format)
}

/** The id of an object: the hash of its type, size and content. */
export function idOfObject(
  type: NewObject['type'] | 'tag',
  content: Buffer,
  format: ObjectFormat,
): string {
  return createHash(format).update(`${type} ${content.length}\0`).update(content).digest('hex')
}

/** Makes a commit as `git commit-tree` does: https://git-scm.com/docs/git-commit-tree */
export function toCommitObject(fields: CommitFields): NewObject {
  const { tree, parents, author, committer, message } = fields
  const lines = [`tree ${tree}`, ...parents.map((parent) => `parent ${parent}`)].join('\n')
  const content = Buffer.concat([
    Buffer.from(`${lines}\nauthor `),
    Buffer.from(author),
    Buffer.from(`\ncommitter ${committer}\n\n`),
    Buffer.from(message),
  ])
  return toObject('commit', content, formatOf(tree))
}

/** Formats an identity for a commit. */
export function toIdentityLine({ name, email, seconds, offset }: Identity): string {
  return `${name} <${email}> ${seconds} ${offset}`
}

/** Removes what Git removes at both ends of a name or an address: `crud` in Git's ident.c. */
export function withoutCrud(text: string): string {
  let [start, end] = [0, text.length]
  while (start < end && isCrud(text.charAt(start))) start++
  while (start < end && isCrud(text.charAt(end - 1))) end--
  return text.slice(start, end)
}

function isCrud(character: string): boolean {
  return character <= ' ' || '.,:;<>"\\\''.includes(character)
}
