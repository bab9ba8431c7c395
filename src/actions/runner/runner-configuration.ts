import { delimiter } from 'node:path'
import type { ListedHosts } from '#base/outbound/listed-hosts.ts'
import type { Settings } from '#config/settings.ts'
import type { SandboxMode } from '../sandbox/isolation.ts'
import type { Isolation, SandboxLimits } from '../sandbox/sandbox.ts'

/** Configuration of a runner's sandbox. */
export type RunnerSandboxOptions = {
  mode: SandboxMode
  network: 'none' | 'full'
  /** Folders of tools by version, which are also among the readable paths. */
  toolFolders: string[]
  /** Variables of all steps. */
  stepEnv: Record<string, string>
  hosts: ListedHosts | undefined
  readOnlyPaths: string[]
  hiddenPaths: string[]
  limits: Omit<SandboxLimits, 'freeSpaceMinBytes'>
  /** Bytes of disk space that must stay free; undefined for the server's default. */
  freeSpaceMinBytes: number | undefined
}

type Needed = Pick<
  Settings,
  | 'sandbox'
  | 'sandboxNetwork'
  | 'stepHosts'
  | 'sandboxPaths'
  | 'tools'
  | 'stepEnv'
  | 'stepMemoryMaxBytes'
  | 'stepProcesses'
  | 'stepFileMaxBytes'
  | 'freeSpaceMinBytes'
  | 'dataDir'
  | 'encryptionKeyFile'
>

/** Derives the sandbox's options from the settings. The data and keys of a server on this machine are hidden. */
export function toSandboxOptions(settings: Needed): RunnerSandboxOptions {
  const { dataDir, encryptionKeyFile: keyFile, tools = [] } = settings
  return {
    mode: settings.sandbox,
    network: settings.sandboxNetwork,
    toolFolders: tools,
    stepEnv: settings.stepEnv ?? {},
    readOnlyPaths: [...(settings.sandboxPaths ?? []), ...tools],
    hosts: settings.stepHosts,
    hiddenPaths: [dataDir, ...(keyFile === undefined ? [] : [keyFile])],
    limits: {
      memoryMaxBytes: settings.stepMemoryMaxBytes,
      processesMax: settings.stepProcesses,
      fileMaxBytes: settings.stepFileMaxBytes,
    },
    freeSpaceMinBytes: settings.freeSpaceMinBytes,
  }
}

const usual = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
const system = ['/usr', '/opt', '/bin', '/sbin']

type Options = {
  /** The runner's own PATH. */
  path: string
  isolation: Isolation['kind']
  readOnlyPaths: readonly string[]
}

/** PATH of steps: the directories of the runner's PATH that steps can read, and the usual ones. */
export function toStepPath({ path, isolation, readOnlyPaths }: Options): string {
  const seen = [...system, ...readOnlyPaths]
  const isSeen = (folder: string) => seen.some((root) => `${folder}/`.startsWith(`${root}/`))
  const folders = path.split(delimiter).filter((folder) => folder.startsWith('/'))
  const own = isolation === 'none' ? folders : folders.filter(isSeen)
  return [...new Set([...own, ...usual])].join(delimiter)
}

/** The options that a runner's operator chooses. */
export type RunnerChoices = {
  name: string
  /** Labels for `runs-on`, in addition to those that every runner has. */
  labels: string[]
  /** A directory that only this runner uses. */
  folder: string
  /** The maximum number of concurrent jobs. */
  jobs: number
  sandbox: RunnerSandboxOptions
  /** How long the workspaces of failed jobs are kept after their run; 0 for none. */
  failedWorkspaceMs: number
  /** Directories of programs, in the format of PATH. */
  path: string
  version: string
}

/** What the server passes to its built-in runner when it starts. */
export type RunnerConfiguration = RunnerChoices & {
  /** The address of the server. */
  server: string
  /** The secret that authenticates the runner. */
  token: string
  idleMs: number
  logLevel: string
}
