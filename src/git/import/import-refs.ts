import type { ObjectFormat } from '#base/object-id.ts'
import { writeObjectFormat } from '../objects/object-format.ts'
import type { LfsSource } from './lfs-source.ts'
import {
  fetchMirror,
  type Mirroring,
  type MirrorSource,
  readRemoteSource,
  setHead,
} from './mirror.ts'
import { mirrorCopy } from './mirror-copy.ts'

/** A private copy of a local repository, its object format, and the full name of the ref in its HEAD. */
export type LocalCopy = { copy: string; objectFormat: ObjectFormat; head: string | undefined }

/** A source that git can fetch from. */
export type OpenedSource = AsyncDisposable & {
  from: { remote: MirrorSource } | LocalCopy
  /** Its objects of Git LFS; undefined when they cannot be read. */
  lfs: LfsSource | undefined
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
    await writeObjectFormat(directory, from.objectFormat)
    await mirrorCopy(from.copy, directory, mirroring)
    return setHead(directory, from.head)
  }
  const { head, objectFormat } = await readRemoteSource(from.remote, mirroring)
  await writeObjectFormat(directory, objectFormat)
  await fetchMirror(from.remote, directory, mirroring)
  await setHead(directory, head)
}
