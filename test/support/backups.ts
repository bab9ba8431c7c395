import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Ran, runSvc } from './command.ts'
import { runInProcess } from './command-in-process.ts'
import { git } from './git.ts'
import { repositoryFolders } from './leftovers.ts'
import { copyPrefix } from './load.ts'
import { openPushRecords, type PushEvent } from './push-records.ts'
import { keptFaults, partRefs } from './retained-commits.ts'
import type { Service } from './service.ts'

const zeroId = '0'.repeat(40)

/** Runs a command that should do what it is asked. */
export async function mustRun(
  args: string[],
  env?: Record<string, string>,
  input?: string,
): Promise<string> {
  const { code, out, err } = await runSvc(args, env, input)
  assert.equal(code, 0, `svc ${args.join(' ')}: ${err}${out}`)
  return out
}

/** Runs a command as `mustRun` does, but in this process. */
export async function mustRunInProcess(
  args: string[],
  env?: Record<string, string>,
): Promise<string> {
  const { code, out, err } = await runInProcess(args, env)
  assert.equal(code, 0, `svc ${args.join(' ')}: ${err}${out}`)
  return out
}

/** What the verification of an intact backup finds. */
export async function verified(folder: string) {
  return JSON.parse(await mustRunInProcess(['backup', 'verify', folder, '--json']))
}

/** Asserts that a backup passes its verification. */
export async function assertWhole(folder: string): Promise<void> {
  assert.deepEqual((await verified(folder)).faults, [])
}

/** Asserts that a command failed with a sentence for people. */
export function assertRefused({ code, err }: Ran, sentence: RegExp): void {
  assert.match(err, sentence)
  assert.equal(code, 1)
  assert.doesNotMatch(err, /\n\s+at |Error:/)
}

/** Every file of a folder with its content's sum. */
export async function contentOf(folder: string): Promise<Map<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sums = files.map(async ({ parentPath, name }) => {
    const path = join(parentPath, name)
    const sum = createHash('sha256')
      .update(await readFile(path))
      .digest('hex')
    return [path.slice(folder.length + 1), sum] as const
  })
  return new Map((await Promise.all(sums)).sort())
}

/** All refs of all repositories, as `<repository> <ref> <value>`, with each HEAD. */
export async function refsOf(service: Pick<Service, 'dataDir'>): Promise<string[]> {
  const lines: string[] = []
  for (const path of await repositoryFolders(service.dataDir)) {
    const id = path.slice(-30, -4)
    const head = (await readFile(join(path, 'HEAD'), 'utf8')).trim()
    lines.push(`${id} HEAD ${head}`)
    for (const [ref, value] of await refsIn(path)) lines.push(`${id} ${ref} ${value}`)
  }
  return lines.sort()
}

/**
 * Asserts that a server that has just started on what was restored is whole: its event log explains its refs
 * to the last one, their objects are there, and every repository has its files.
 */
export async function assertAgrees(
  { dataDir, admin, log }: Pick<Service, 'dataDir' | 'admin' | 'log'>,
  refsOfCopies = new Map<string, string>(),
): Promise<void> {
  using records = openPushRecords(dataDir)
  assert.deepEqual(records.unfinished(), [], 'pushes are unfinished after the start')
  const { numbers, pushes, imported } = records.eventsAfter(0)
  assert.deepEqual(
    numbers,
    numbers.map((_, index) => index + 1),
  )
  const { body: repositories } = await admin.get('/repos')
  const paths = repositories.map(({ path }: { path: string }) => path)
  assert.deepEqual(paths.sort(), await repositoryFolders(dataDir))
  assert.doesNotMatch(log(), /have lost|does not know/)
  const faults: string[] = []
  for (const { id, name, path } of repositories) {
    const recorded = pushes.filter(({ repositoryId }) => repositoryId === id)
    const { visible: refs, kept } = partRefs(await refsIn(path))
    if (name.startsWith(copyPrefix)) assert.deepEqual(refs, refsOfCopies, name)
    // Imported repositories start with refs without events.
    if (!imported.has(id))
      faults.push(...faultsOf(refs, recorded).map((fault) => `${id}: ${fault}`))
    faults.push(...keptFaults(kept, recorded).map((fault) => `${id}: ${fault}`))
    const fsck = ['fsck', '--full', '--strict', '--connectivity-only']
    await git('/', ['-c', 'safe.directory=*', '--git-dir', path, ...fsck])
  }
  assert.deepEqual(faults, [])
}

/**
 * How a repository's events fail to explain its refs. Each event takes its ref from one value to the next, so
 * all of them together must lead from none to the present value, in whichever order they were written.
 */
function faultsOf(refs: Map<string, string>, events: PushEvent[]): string[] {
  const names = new Set([...refs.keys(), ...events.map(({ ref }) => ref)])
  return [...names].flatMap((ref) => {
    const balance = new Map<string, number>([[zeroId, 1]])
    const add = (value: string, by: number) => balance.set(value, (balance.get(value) ?? 0) + by)
    for (const event of events.filter((one) => one.ref === ref)) {
      add(event.before, -1)
      add(event.after, 1)
    }
    add(refs.get(ref) ?? zeroId, -1)
    const odd = [...balance].filter(([, count]) => count !== 0)
    return odd.map(
      ([value, count]) => `${ref} is ${refs.get(ref)}, but ${value} is off by ${count}`,
    )
  })
}

/** The refs of a repository with their values. */
export async function refsIn(path: string): Promise<Map<string, string>> {
  const format = '--format=%(refname) %(objectname)'
  const { stdout } = await git('/', ['--git-dir', path, 'for-each-ref', format])
  const lines = stdout.split('\n').filter((line) => line !== '')
  // The format has two words.
  return new Map(lines.map((line) => line.split(' ') as [string, string]))
}
