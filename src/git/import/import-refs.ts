import {
  fetchMirror,
  type Mirroring,
  type MirrorSource,
  readSourceHead,
  setHead,
} from './mirror.ts'
import { mirrorCopy } from './mirror-copy.ts'

/** A private copy of a local repository, and the full name of the ref in its HEAD. */
export type LocalCopy = { copy: string; head: string | undefined }

/** A source that git can fetch from. */
export type OpenedSource = AsyncDisposable & {
  from: { remote: MirrorSource } | LocalCopy
  /** A more precise error than git's, if the source could not be read. */
  fault: () => unknown
}

/** Imports all refs of a source, with their objects, and its HEAD into an empty repository. */
export async function importRefs(
  { from }: Pick<OpenedSource, 'from'>,
  directory: string,
  mirroring: Mirroring,
): Promise<void> {
  if ('copy' in from) {
    await mirrorCopy(from.copy, directory, mirroring)
    return setHead(directory, from.head)
  }
  const head = await readSourceHead(from.remote, mirroring)
  await fetchMirror(from.remote, directory, mirroring)
  await setHead(directory, head)
}
