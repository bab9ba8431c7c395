import { orAborted } from '#base/timeouts.ts'
import type { Workspace } from '../sandbox/sandbox.ts'
import { writeFresh } from '../sandbox/workspace-files.ts'
import type { Plan } from '../workflow-engine/plan.ts'
import type { Checkout } from '../workflow-engine/run-state.ts'
import { branchOf, runCheckout, toConfig } from './check-out.ts'
import type { SourcePack } from './source-pack.ts'

const enter = 'mkdir -p -- "$1" && cd -- "$1"'

// As actions/checkout does with what is no repository yet, and with the branches of one that is.
const prepare = `
{ [ -d .git ] || find . -mindepth 1 -maxdepth 1 -exec rm -rf -- {} +; } &&
rm -rf .git/refs .git/index.lock && mkdir -p .git/objects .git/refs &&
printf %s "$3" >.git/config && printf %s "$4" >.git/HEAD`

// The lists may be longer than an argument. A file without lines would make a repository shallow.
const addCommits = `
cat "$2/checkout-refs" >.git/packed-refs &&
if [ -s "$2/checkout-shallow" ]; then cat "$2/checkout-shallow" >.git/shallow; else rm -f .git/shallow; fi &&
git index-pack --stdin >/dev/null`

const replaceFiles = 'git read-tree --reset -u HEAD'
const removeOthers = 'git clean -ffdxq'

const scripts: Record<Checkout['files'], string> = {
  keep: [enter, addCommits].join(' && '),
  add: [enter, prepare, addCommits, replaceFiles].join(' && '),
  replace: [enter, prepare, addCommits, replaceFiles, removeOthers].join(' && '),
}

type Options = {
  workspace: Workspace
  plan: Pick<Plan, 'repository' | 'serverUrl' | 'limits'>
  checkout: Checkout
  source: Promise<SourcePack>
  /** PATH for finding git. */
  path: string
  signal: AbortSignal
}

/**
 * Checks out what a step asks for, in a workspace where steps have run. Returns the commit and its ref. Rejects as the
 * source does, or with a CheckOutError.
 */
export async function checkOutAgain({
  checkout: { folder, files },
  plan,
  source,
  ...command
}: Options): Promise<{ commit: string; ref: string }> {
  const { outside, inside } = command.workspace
  const { header } = await orAborted(source, command.signal)
  const { commit, ref, shallow } = header
  writeFresh(`${outside.files}/checkout-refs`, toPackedRefs(header))
  writeFresh(`${outside.files}/checkout-shallow`, shallow.map((id) => `${id}\n`).join(''))
  await runCheckout({
    ...command,
    script: scripts[files],
    args: [
      folder === '' ? '.' : folder,
      inside.files,
      toConfig({ ...plan, ref, files: inside.files }),
      branchOf(ref) === undefined ? `${commit}\n` : `ref: ${ref}\n`,
    ],
    source,
    commit,
    limits: plan.limits,
  })
  return { commit, ref }
}

/** The refs of the server as a fetch of actions/checkout leaves them, and the branch of the commit. */
export function toPackedRefs({ commit, ref, refs }: SourcePack['header']): string {
  const all = new Map(Object.entries(refs).map(([name, id]) => [toTracked(name), id]))
  if (branchOf(ref) !== undefined) all.set(ref, commit).set(toTracked(ref), commit)
  else if (ref !== '' && !all.has(ref)) all.set(ref, commit)
  return [...all].map(([name, id]) => `${id} ${name}\n`).join('')
}

function toTracked(ref: string): string {
  return ref.replace(/^refs\/heads\//, 'refs/remotes/origin/')
}
