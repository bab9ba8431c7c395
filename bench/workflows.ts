import { serverCoreCount, serverCores } from './cores.ts'
import { interleave } from './measure.ts'
import { type Growth, watchGrowth } from './memory.ts'
import { contest, type Effort, type Result } from './operations.ts'
import { say } from './output.ts'
import { run } from './program.ts'
import type { startSubject } from './subject.ts'
import type { Workspace } from './workspace.ts'

type Subject = Pick<Awaited<ReturnType<typeof startSubject>>, 'startRun' | 'untilEnd' | 'pid'>

/** A repository with workflows: at svc, and as a folder for a peer. */
type Project = { name: string; path: string }

const queued = 100
const gigabyte = 1e9
const lookEveryMs = 50

// The line length of verbose programs.
const flood = `yes "$(printf '%075d' 0)" | head -c ${gigabyte}`

/** The workflow files of a project, by their paths. */
export const workflowFiles = {
  '.svc/workflows/true.yml': "steps: [{ run: 'true' }]\n",
  '.svc/workflows/flood.yml': `steps:\n  - run: ${flood}\n`,
}

// A minimal sandbox with bubblewrap alone.
const bubblewrap =
  'bwrap --unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib ' +
  '--symlink usr/lib64 /lib64 --proc /proc --dev /dev --bind "$1" /workspace --chdir /workspace'

/** Measures the time from the request for a run to the start of its first step, in ms, on an idle server. */
export async function measureFirstStep(subject: Subject, { name }: Project, effort: Effort) {
  say('Measuring: request to first step')
  const toFirstStep = async () => {
    // The run reports the start of its step by the same clock.
    const askedAt = Date.now()
    const { steps } = await subject.untilEnd(name, await subject.startRun(name, 'true.yml'))
    const [startedAt] = steps.map((step) => step.startedAt)
    if (typeof startedAt !== 'number') throw new Error('A run has ended without a step.')
    return startedAt - askedAt
  }
  const { medians, rounds } = await interleave({ contestants: { svc: toFirstStep }, ...effort })
  return { ms: medians.svc, rounds }
}

/** Compares many concurrent runs on two cores with as many clones with a step in bubblewrap, two at a time. */
export async function measureQueue(
  workspace: Workspace,
  subject: Subject,
  { name, path }: Project,
  effort: Effort,
): Promise<Result> {
  const { env, folder, signal } = workspace
  const one = `git clone --quiet --depth 1 "file://$0" "$1" && ${bubblewrap} sh -e -c true && rm -r "$1"`
  const contestants = {
    async svc() {
      const startedAt = performance.now()
      const ids: string[] = []
      for (let count = 0; count < queued; count++)
        ids.push(await subject.startRun(name, 'true.yml'))
      for (const id of ids) await subject.untilEnd(name, id)
      return performance.now() - startedAt
    },
    async peer() {
      const folders = Array.from({ length: queued }, (_, index) => `${folder}/peer-${index}\n`)
      const each = ['xargs', '-P', `${serverCoreCount}`, '-I', '{}', 'sh', '-c', one, path, '{}']
      const options = { env, signal, cwd: folder, input: folders }
      return (await run('taskset', ['-c', serverCores, ...each], options)).elapsedMs
    },
  }
  return contest(`${queued} runs of true on ${serverCoreCount} cores`, contestants, effort)
}

/** Compares a step that writes 1 GB with the same in bubblewrap, and measures svc's memory. */
export async function measureOutput(
  workspace: Workspace,
  subject: Subject,
  { name, path }: Project,
  effort: Effort,
): Promise<{ result: Result; growth: Growth }> {
  const { env, signal } = workspace
  using watched = watchGrowth(subject.pid, lookEveryMs)
  const script = `${bubblewrap} sh -c "$0" | cat >/dev/null`
  const contestants = {
    async svc() {
      const startedAt = performance.now()
      await subject.untilEnd(name, await subject.startRun(name, 'flood.yml'))
      return performance.now() - startedAt
    },
    peer: async () => (await run('sh', ['-c', script, flood, path], { env, signal })).elapsedMs,
  }
  const result = await contest('1 GB of output by a step', contestants, effort)
  return { result, growth: watched.growth }
}
