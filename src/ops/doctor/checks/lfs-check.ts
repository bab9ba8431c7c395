import { stat } from 'node:fs/promises'
import { hashFile } from '#base/disk.ts'
import { pathOfLfsObject } from '#repositories/store/lfs-files.ts'
import type { Check } from '../check.ts'
import type { DoctorContext } from '../context.ts'
import { type KnownLfsObject, listKnownLfsObjects } from '../doctor-store.ts'
import { countOrNo, type Findings, fault, firstOf, ok, orOk } from '../finding.ts'
import { listFolders } from './repository-folders.ts'

/** Checks that repositories have the bytes of their LFS objects, also their SHA-256 when the objects of Git are checked. */
export const lfsCheck: Check = {
  id: 'lfs',
  title: 'Git LFS objects against their files',
  isLong: true,
  async run(context) {
    if (context.setting('store')) return ok('They are in the bucket of SVC_STORE.')
    const { paths } = await listFolders(context)
    const objects = await context.read(listKnownLfsObjects)
    const findings: Findings[] = []
    for (const [index, object] of objects.entries()) {
      context.onProgress(`Git LFS object ${index + 1} of ${objects.length}`)
      const directory = paths.get(object.repositoryId)
      if (directory === undefined) continue
      const reason = await faultOf(context, object, directory)
      if (reason === undefined || !(await isStillThere(context, object))) continue
      findings.push(
        fault(
          `The Git LFS object ${object.oid} of ${object.name} ${reason}.`,
          `${copyLfsObject(object)}: cp FILE ${pathOfLfsObject(directory, object.oid)}`,
        ),
      )
    }
    context.onProgress(undefined)
    return orOk(
      firstOf(findings),
      `${countOrNo(objects.length, 'object')}, all present and intact.`,
    )
  },
}

/** Where an administrator finds the bytes of an object that is lost. Clients do not upload one whose row is there. */
export function copyLfsObject({
  repositoryId,
  oid,
}: {
  repositoryId: string
  oid: string
}): string {
  const inClone = pathOfLfsObject('.git', oid)
  return `Copy it from a clone that has it as ${inClone}, or from repositories/${repositoryId}/lfs of a backup`
}

/** The fault of the file of an object, as the end of a sentence. */
async function faultOf(
  { objectsOf }: DoctorContext,
  { oid, size }: KnownLfsObject,
  directory: string,
): Promise<string | undefined> {
  const path = pathOfLfsObject(directory, oid)
  const found = await stat(path).catch(() => undefined)
  if (!found) return 'is missing'
  if (found.size !== size) return `has ${found.size} bytes instead of ${size}`
  if (objectsOf === false || (await hashFile(path)) === oid) return undefined
  return 'has other bytes than its id says'
}

/** Whether an object was not deleted in the meantime. */
async function isStillThere(context: DoctorContext, { repositoryId, oid }: KnownLfsObject) {
  const present = await context.read(listKnownLfsObjects)
  return present.some((one) => one.repositoryId === repositoryId && one.oid === oid)
}
