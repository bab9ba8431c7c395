import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { makeBulk, mixedSizes } from './fixtures.ts'
import { print } from './print.ts'
import { bytesRow, type Row } from './rows.ts'
import { type SvcOptions, startSvc } from './svc.ts'
import type { Workspace } from './workspace.ts'

/** Memory in bytes, as proc(5) has it in `smaps_rollup`. */
type Footprint = {
  rss: number
  /** Proportional: each process counts its share of pages used by several. */
  pss: number
  /**
   * `pss` as if no other program ran on the same Node: otherwise the bench, which runs on it too, would
   * count for half of that program's pages.
   */
  pssAlone: number
}

/** The growth of memory that is not merely a copy of a file, in bytes. */
export type Growth = {
  /** Of the process itself. */
  own: number
  /** Of the process with all its descendants. */
  tree: number
  /** The processes at the moment of the tree's peak, largest first. */
  largest: { command: string; bytes: number }[]
}

const kib = 1024
// The garbage of the start is collected after ten seconds.
const idleAfterMs = 15_000
const pollIntervalMs = 50
const maxShown = 4

/** Measures svc's memory when idle, and with `hasHugePush` its growth during a push of 2 GiB. */
export async function measureMemory(
  workspace: Workspace,
  { hasHugePush }: { hasHugePush: boolean },
): Promise<Row[]> {
  print('Measuring: memory when idle')
  const idle = await measureIdle(workspace, { dataDir: join(workspace.folder, 'data-idle') })
  return [
    bytesRow('memory: idle', idle.pssAlone),
    bytesRow('  with the pages shared with this bench', idle.pss),
    bytesRow('  resident', idle.rss),
    ...(hasHugePush ? await measureHugePush(workspace) : []),
  ]
}

/** The memory of svc after its start, without requests. */
export async function measureIdle({ signal }: Workspace, options: SvcOptions): Promise<Footprint> {
  await using svc = await startSvc(options)
  await pause(idleAfterMs, undefined, { signal })
  const footprint = footprintOf(svc.pid)
  await svc.stop()
  return footprint
}

async function measureHugePush(workspace: Workspace): Promise<Row[]> {
  const { folder, git, signal } = workspace
  print('Creating 2 GiB of incompressible data')
  const huge = await makeBulk(workspace, { name: 'huge', sizes: mixedSizes() })
  const env = { SVC_PUSH_MAX: '4GiB' }
  await using svc = await startSvc({ dataDir: join(folder, 'data-huge'), env })
  const address = await svc.host.create(huge.name)
  await pause(idleAfterMs, undefined, { signal })
  print('Measuring: memory during a push of 2 GiB')
  using watched = watchGrowth(svc.pid)
  const update = `${huge.ref}:${huge.ref}`
  await git(['-C', huge.path, 'push', '--quiet', address, update], { config: huge.config })
  await svc.stop()
  return [
    bytesRow('memory: push of 2 GiB, growth of svc', watched.growth.own),
    bytesRow('memory: push of 2 GiB, growth of svc with git', watched.growth.tree),
    ...largestRows(watched.growth),
  ]
}

/** The largest processes at the peak of a growth. */
export function largestRows({ largest }: Growth): Row[] {
  return largest
    .slice(0, maxShown)
    .map(({ command, bytes }) => bytesRow(`  at the peak: ${command}`, bytes))
}

/** The memory of a process and all its descendants. */
function footprintOf(pid: number): Footprint {
  const all = treeOf(pid).map((one) => ({ ...rollupOf(one), program: programPages(one) }))
  const pss = sum(all.map((one) => one.pss))
  const programPss = sum(all.map((one) => one.program.pss))
  // Processes of one program share its pages, so the most that one of them has stands for all.
  const programRss = Math.max(...all.map((one) => one.program.rss))
  return { rss: sum(all.map((one) => one.rss)), pss, pssAlone: pss - programPss + programRss }
}

/** Polls the memory of some processes and their descendants until disposed; the first is the process itself. */
export function watchGrowth(...roots: number[]) {
  const [pid] = roots
  const first = anonymousIn(roots)
  const growth: Growth = { own: 0, tree: 0, largest: [] }
  const poll = () => {
    const now = anonymousIn(roots)
    growth.own = Math.max(growth.own, now.own - first.own)
    if (now.tree - first.tree <= growth.tree) return
    growth.tree = now.tree - first.tree
    growth.largest = now.processes.map(({ id, bytes }) => ({
      command: id === pid ? 'svc' : commandOf(id),
      bytes,
    }))
  }
  const timer = setInterval(poll, pollIntervalMs)
  return { growth, [Symbol.dispose]: () => clearInterval(timer) }
}

function anonymousIn(roots: number[]) {
  const processes = treeOf(...roots)
    .map((id) => ({ id, bytes: rollupOf(id).anonymous }))
    .toSorted((a, b) => b.bytes - a.bytes)
  return {
    own: processes.find(({ id }) => id === roots[0])?.bytes ?? 0,
    tree: sum(processes.map(({ bytes }) => bytes)),
    processes,
  }
}

function rollupOf(pid: number) {
  const rollup = read(`/proc/${pid}/smaps_rollup`)
  return {
    rss: field(rollup, 'Rss'),
    pss: field(rollup, 'Pss'),
    anonymous: field(rollup, 'Pss_Anon') + field(rollup, 'Pss_Shmem'),
  }
}

/** The pages of the program file itself. */
function programPages(pid: number): { rss: number; pss: number } {
  const program = link(`/proc/${pid}/exe`)
  const mappings = read(`/proc/${pid}/smaps`).split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m)
  const own = mappings.filter((text) => text.split('\n', 1)[0]?.endsWith(` ${program}`))
  return {
    rss: sum(own.map((mapping) => field(mapping, 'Rss'))),
    pss: sum(own.map((mapping) => field(mapping, 'Pss'))),
  }
}

function treeOf(...roots: number[]): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? read(`/proc/${name}/stat`) : ''
    // The name of the command comes before this, in parentheses, and may hold anything.
    const [, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (parent !== undefined) parents.set(Number(name), Number(parent))
  }
  const tree = [...roots]
  for (const pid of tree) {
    for (const [child, parent] of parents) if (parent === pid) tree.push(child)
  }
  return tree
}

function commandOf(pid: number): string {
  const [program = '', argument = ''] = read(`/proc/${pid}/cmdline`).split('\0')
  return `${basename(program)} ${argument}`
}

function field(text: string, name: string): number {
  return Number(new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * kib
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

// A process that has ended has no memory.
function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}

function link(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
