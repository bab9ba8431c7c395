import { chmod, mkdir, readdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openSandbox, type SandboxOptions } from '#actions/sandbox/open-sandbox.ts'
import { processesOfWorkspace } from '#actions/sandbox/processes.ts'
import type { CommandEnd, Workspace, WorkspaceCommand } from '#actions/sandbox/sandbox.ts'
import { findProgram } from '#base/find-program.ts'
import { parseListedHosts } from '#base/outbound/listed-hosts.ts'
import { temporaryFolder } from './git.ts'

export const systemPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

const limits = {
  memoryMaxBytes: 256 * 1024 ** 2,
  processesMax: 100,
  fileMaxBytes: 50 * 1024 ** 2,
  freeSpaceMinBytes: 1024 ** 2,
}

/** With SVC_TEST_STEP_HOSTS, steps of all tests may reach hosts. */
const testHosts = parseListedHosts(process.env.SVC_TEST_STEP_HOSTS ?? '')

export type TestSandbox = Awaited<ReturnType<typeof openTestSandbox>>

type Options = Partial<Omit<SandboxOptions, 'limits'>> & {
  limits?: Partial<SandboxOptions['limits']>
}

/** A sandbox in its own directory, with one workspace. */
export async function openTestSandbox(options: Options = {}) {
  const folder = await temporaryFolder()
  const path = options.folder ?? join(folder.path, 'workspaces')
  await mkdir(path, { recursive: true, mode: 0o700 })
  const sandbox = await openSandbox({
    path: systemPath,
    network: 'none',
    mode: 'require',
    readOnlyPaths: [],
    hiddenPaths: [],
    ...(options.network !== 'full' && { hosts: testHosts }),
    ...options,
    folder: path,
    limits: { ...limits, ...options.limits },
  })
  const workspace = await sandbox.openWorkspace()
  const network =
    sandbox.isolation.network === 'hosts'
      ? { network: { rules: sandbox.hosts, log: async () => {} } }
      : {}
  return {
    sandbox,
    workspace,
    folder: path,
    /** Runs a bash script in the workspace. */
    run: (script: string, more: Partial<WorkspaceCommand> = {}) =>
      runScript(workspace, script, { ...network, ...more }),
    /** Removes the workspace; returns what is left of its processes and files. */
    async close(): Promise<{ processes: number[]; files: string[] }> {
      await workspace[Symbol.asyncDispose]()
      return { processes: runningIn(workspace), files: await readdir(path) }
    },
    [Symbol.asyncDispose]: async () => {
      await workspace[Symbol.asyncDispose]()
      await folder[Symbol.asyncDispose]()
    },
  }
}

/** Runs a bash script in a workspace: its result and output. */
export async function runScript(
  workspace: Workspace,
  script: string,
  more: Partial<WorkspaceCommand> = {},
): Promise<CommandEnd & { output: string }> {
  let output = ''
  const end = await workspace.run({
    command: ['bash', '-c', script],
    env: { PATH: '/usr/bin:/bin', HOME: workspace.inside.home },
    cwd: workspace.inside.workspace,
    timeoutMs: 600_000,
    signal: new AbortController().signal,
    onOutput(bytes) {
      output = (output + bytes.toString('latin1')).slice(0, 100_000)
    },
    ...more,
  })
  return { ...end, output }
}

/** The processes of a workspace. */
export function runningIn({ outside }: Pick<Workspace, 'outside'>): number[] {
  return processesOfWorkspace(join(outside.workspace, '..')).map(({ pid }) => pid)
}

/** Waits until something holds; the timeout of the test is the limit. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(10)
}

/** A PATH with all the system tools that the sandbox needs, but not bubblewrap. */
export async function pathWithoutBubblewrap(folder: string): Promise<string> {
  // Steps of another user start with these.
  await chmod(folder, 0o755)
  const names = ['sh', 'rm', 'chmod', 'prlimit', 'setpriv', 'setsid', 'choom']
  const tools = [...names, 'unshare', 'nsenter', 'mount']
  for (const tool of tools) {
    await symlink(findProgram(tool, systemPath) ?? '', join(folder, tool))
  }
  return folder
}
