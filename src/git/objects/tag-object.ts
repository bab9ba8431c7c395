import { type CommitPerson, decoderOf, parsePerson } from './commit-object.ts'

/** An annotated tag as it is stored: gitformat-signature, git-mktag(1). */
export type TagObject = {
  tagger: CommitPerson | undefined
  /** Without the signature. */
  message: string
  /** The format of its signature, which is not verified; undefined if there is none. */
  signature: SignatureFormat | undefined
}

type SignatureFormat = 'openpgp' | 'x509' | 'ssh'

// The first lines of signatures in Git's gpg-interface.c.
const signatureStarts = new Map<string, SignatureFormat>([
  ['-----BEGIN PGP SIGNATURE-----', 'openpgp'],
  ['-----BEGIN PGP MESSAGE-----', 'openpgp'],
  ['-----BEGIN SIGNED MESSAGE-----', 'x509'],
  ['-----BEGIN SSH SIGNATURE-----', 'ssh'],
])

/** Parses the content of a tag object. */
export function parseTag(content: Buffer): TagObject {
  const end = content.indexOf('\n\n')
  const head = content.toString('latin1', 0, end === -1 ? content.length : end)
  const lines = head.split('\n')
  const fieldOf = (key: string) =>
    lines.find((line) => line.startsWith(`${key} `))?.slice(key.length + 1)
  const decode = decoderOf(fieldOf('encoding') ?? '')
  const tagger = fieldOf('tagger')
  const text = content.subarray(end === -1 ? content.length : end + 2)
  const { at, signature } = findSignature(text)
  return {
    tagger: tagger === undefined ? undefined : parsePerson(tagger, decode),
    message: decode(text.subarray(0, at)),
    signature,
  }
}

/** Finds the signature at the end of a message: as Git does, from the last line that begins one. */
function findSignature(text: Buffer): { at: number; signature: SignatureFormat | undefined } {
  let at = -1
  let signature: SignatureFormat | undefined
  for (const [start, format] of signatureStarts) {
    const before = text.lastIndexOf(`\n${start}`)
    const found = before === -1 && text.indexOf(start) !== 0 ? -1 : before + 1
    if (found > at) [at, signature] = [found, format]
  }
  return { at: signature === undefined ? text.length : at, signature }
}
