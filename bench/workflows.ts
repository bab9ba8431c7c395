import { join } from 'node:path'
import { makeProject, type Source } from './fixtures.ts'
import { publish } from './git-commands.ts'
import { serverCoreCount, serverCores } from './isolation.ts'
import { compare, type Effort } from './measure.ts'
import { largestRows, watchGrowth } from './memory.ts'
import { print } from './print.ts'
import { run } from './processes.ts'
import { bytesRow, type Medians, type Row, timeRow } from './rows.ts'
import { type Svc, startSvc } from './svc.ts'
import type { Workspace } from './workspace.ts'

const queued = 100
const gigabyte = 1e9

// The line length of verbose programs.
const flood = `yes "$(printf '%075d' 0)" | head -c ${gigabyte}`

// About 200 MB in 20,000 files, which compress as little as most packages.
const cachedFiles =
  'mkdir deps && head -c 150000000 /dev/urandom | base64 | split -b 10000 -a 5 -d - deps/'
const cacheInputs = '{ path: deps, key: deps }'

const workflowFiles = {
  '.svc/workflows/save.yml': `steps:\n  - run: ${cachedFiles}\n  - { uses: actions/cache/save@v4, with: ${cacheInputs} }\n`,
  '.svc/workflows/restore.yml': `steps: [{ uses: actions/cache/restore@v4, with: ${cacheInputs} }]\n`,
  '.svc/workflows/true.yml': "steps: [{ run: 'true' }]\n",
  '.svc/workflows/flood.yml': `steps:\n  - run: ${flood}\n`,
}

// A minimal sandbox with bubblewrap alone.
const bubblewrap =
  'bwrap --unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib ' +
  '--symlink usr/lib64 /lib64 --proc /proc --dev /dev --bind "$1" /workspace --chdir /workspace'

/** Measures workflow runs, beside bubblewrap alone. */
export async function measureWorkflows(
  workspace: Workspace,
  effort: {
    firstSteps: number
    queues: number
    outputs: number
    restores: number
    seconds: number
  },
): Promise<Row[]> {
  const { firstSteps, queues, outputs, restores, seconds } = effort
  print('Starting svc with a runner')
  const project = await makeProject(workspace, 'project', workflowFiles)
  const dataDir = join(workspace.folder, 'data-workflows')
  const upTo = (rounds: number) => ({ rounds, seconds })
  await using svc = await startSvc({ dataDir })
  await publish(workspace, svc.host, project)
  const restored = await compareRestore(workspace, svc, project, upTo(restores))
  const firstStep = await measureFirstStep(svc, project, upTo(firstSteps))
  using watched = watchGrowth(svc.pid)
  const output = await compareOutput(workspace, svc, project, upTo(outputs))
  const { growth } = watched
  await svc.stop()
  // A fresh one: the queue is measured without the memory of the output.
  await using fresh = await startSvc({ dataDir })
  const queue = await compareQueue(workspace, fresh, project, upTo(queues))
  await fresh.stop()
  return [
    timeRow('workflows: request to first step', firstStep),
    timeRow('workflows: 1 GB of output', output),
    bytesRow('workflows: 1 GB of output, growth of svc', growth.own),
    ...largestRows(growth),
    timeRow('workflows: 100 runs', queue),
    timeRow('workflows: restoring a cache of 200 MB', restored),
  ]
}

/** The time from the request for a run to the start of its first step, on an idle server. */
function measureFirstStep(svc: Svc, { name }: Source, effort: Effort): Promise<Medians> {
  const toFirstStep = async () => {
    // The run reports the start of its step by the same clock.
    const requestedAt = Date.now()
    const { steps } = await svc.untilEnd(name, await svc.startRun(name, 'true.yml'))
    const [startedAt] = steps.map((step) => step.startedAt)
    if (typeof startedAt !== 'number') throw new Error('A run ended without a step.')
    return startedAt - requestedAt
  }
  return compare('request to first step', { svc: toFirstStep }, effort)
}

/** Compares a step that restores a cache with tar, which unpacks the same files from an archive that is not compressed. */
async function compareRestore(
  { env, folder, signal }: Workspace,
  svc: Svc,
  { name }: Source,
  effort: Effort,
): Promise<Medians> {
  await svc.untilEnd(name, await svc.startRun(name, 'save.yml'))
  const place = join(folder, 'restored')
  const options = { env, signal }
  await run(
    'sh',
    ['-c', `mkdir "$0" && cd "$0" && ${cachedFiles} && tar -cf all.tar deps`, place],
    options,
  )
  const contestants = {
    async svc() {
      const { steps } = await svc.untilEnd(name, await svc.startRun(name, 'restore.yml'))
      const [step] = steps
      if (!step || step.startedAt === null || step.completedAt === null)
        throw new Error('A run ended without a step.')
      return step.completedAt - step.startedAt
    },
    async peer() {
      await run('rm', ['-rf', join(place, 'deps')], options)
      return (await run('tar', ['-xf', join(place, 'all.tar'), '-C', place], options)).elapsedMs
    },
  }
  return compare('restoring a cache of 200 MB', contestants, effort)
}

/** Compares a step that writes 1 GB with the same in bubblewrap. */
function compareOutput(
  { env, signal }: Workspace,
  svc: Svc,
  { name, path }: Source,
  effort: Effort,
): Promise<Medians> {
  const script = `${bubblewrap} sh -c "$0" | cat >/dev/null`
  const contestants = {
    async svc() {
      const startedAt = performance.now()
      await svc.untilEnd(name, await svc.startRun(name, 'flood.yml'))
      return performance.now() - startedAt
    },
    peer: async () => (await run('sh', ['-c', script, flood, path], { env, signal })).elapsedMs,
  }
  return compare('1 GB of output by a step', contestants, effort)
}

/** Compares many concurrent runs with as many clones with a step in bubblewrap, one for each core at a time. */
function compareQueue(
  { env, folder, signal }: Workspace,
  svc: Svc,
  { name, path }: Source,
  effort: Effort,
): Promise<Medians> {
  const one = `git clone --quiet --depth 1 "file://$0" "$1" && ${bubblewrap} sh -e -c true && rm -r "$1"`
  const contestants = {
    async svc() {
      const startedAt = performance.now()
      const ids: string[] = []
      for (let count = 0; count < queued; count++) ids.push(await svc.startRun(name, 'true.yml'))
      for (const id of ids) await svc.untilEnd(name, id)
      return performance.now() - startedAt
    },
    async peer() {
      const folders = Array.from({ length: queued }, (_, index) => `${folder}/peer-${index}\n`)
      const each = ['xargs', '-P', `${serverCoreCount}`, '-I', '{}', 'sh', '-c', one, path, '{}']
      const options = { env, signal, cwd: folder, input: folders }
      return (await run('taskset', ['-c', serverCores, ...each], options)).elapsedMs
    },
  }
  return compare(`${queued} runs on ${serverCoreCount} cores`, contestants, effort)
}
