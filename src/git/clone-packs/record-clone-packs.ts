import { open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { gitCommands } from '../process/commands.ts'
import { type Git, GitError, type GitStartOptions } from '../process/git-process.ts'
import {
  type ClonePack,
  type ClonePacks,
  clonePacksFile,
  maxPacks,
  maxRecorded,
  maxTips,
  readClonePacks,
  writeClonePacks,
} from './clone-packs.ts'
import type { MainlinePack } from './pack-objects.ts'
import { packObjects } from './pack-objects.ts'

/** The values of the visible refs, and the pack that was made of the default branch. */
export type Candidates = {
  tips: ReadonlySet<string>
  mainline?: MainlinePack | undefined
}

// Pack index version 2: a table of counts, whose last one is that of all objects, follows two words.
const countOffset = 8 + 255 * 4

/**
 * Records packs as those of clones: all of them, if they hold exactly what the values of the visible refs reach, and one
 * that was made of the default branch. What was recorded before stays while its packs are there: others only add objects.
 */
export async function recordClonePacks(
  directory: string,
  { tips, mainline }: Candidates,
  git: Git,
  options: GitStartOptions,
): Promise<void> {
  const packs = await listPacks(directory)
  const candidates: ClonePacks[] = [{ tips, packs }]
  const own = packs.filter(({ name }) => name === mainline?.pack)
  if (mainline) candidates.push({ tips: new Set([mainline.tip]), packs: own })
  const found: ClonePacks[] = []
  for (const candidate of candidates) {
    if (await isExact(directory, candidate, git, options)) found.push(candidate)
  }
  const names = new Set(packs.map(({ name }) => name))
  for (const before of await readClonePacks(directory)) {
    const isThere = before.packs.every(({ name }) => names.has(name))
    if (isThere && !found.some((one) => isSame(one, before))) found.push(before)
  }
  if (found.length > 0) await writeClonePacks(directory, found.slice(0, maxRecorded))
  else await rm(join(directory, clonePacksFile), { force: true })
}

/** Whether two have the same packs, and hence the same objects. */
function isSame(one: ClonePacks, other: ClonePacks): boolean {
  const namesOf = ({ packs }: ClonePacks) => packs.map(({ name }) => name).join()
  return namesOf(one) === namesOf(other)
}

/** Packs with an index, other than those of unreachable objects. */
async function listPacks(directory: string): Promise<ClonePack[]> {
  const folder = join(directory, 'objects', 'pack')
  const files = new Set(await readdir(folder))
  const names = [...files].flatMap((file) => /^(pack-[0-9a-f]{40,64})\.idx$/.exec(file)?.[1] ?? [])
  const packs: ClonePack[] = []
  for (const name of names) {
    if (files.has(`${name}.mtimes`)) continue
    const { size } = await stat(join(folder, `${name}.pack`))
    packs.push({ name, objects: await countObjects(join(folder, `${name}.idx`)), bytes: size })
  }
  // The largest first: it holds the oldest objects.
  return packs.sort((one, other) => other.bytes - one.bytes)
}

async function countObjects(index: string): Promise<number> {
  await using file = await open(index)
  const { buffer } = await file.read(Buffer.alloc(4), 0, 4, countOffset)
  return buffer.readUInt32BE()
}

/**
 * Whether no reachable object is outside of the packs, and there are as many as the packs have entries. Then all entries
 * are reachable, and none is there twice. False, too, when git fails.
 */
async function isExact(
  directory: string,
  { tips, packs }: ClonePacks,
  git: Git,
  options: GitStartOptions,
): Promise<boolean> {
  if (packs.length === 0 || packs.length > maxPacks) return false
  if (tips.size === 0 || tips.size > maxTips) return false
  // Git would count and send what is reachable without the history below it.
  if (await stat(join(directory, 'shallow')).catch(ignoreAbsence)) return false
  try {
    const wanted = { wants: tips, excluded: [], keptPacks: packs, maxBytes: 0 }
    if (!(await packObjects(git, directory, wanted, options))) return false
    const input = [...tips].map((tip) => `${tip}\n`).join('')
    const count = await git.run(gitCommands.countReachable(directory), { ...options, input })
    return Number(count) === packs.reduce((sum, { objects }) => sum + objects, 0)
  } catch (error) {
    if (error instanceof GitError) return false
    throw error
  }
}
