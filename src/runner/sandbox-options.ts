import type { Settings } from '../config/settings.ts'
import type { SandboxMode } from '../sandbox/isolation.ts'
import type { SandboxLimits } from '../sandbox/sandbox.ts'

/** How the sandbox of a runner is to be. */
export type RunnerSandboxOptions = {
  mode: SandboxMode
  network: 'none' | 'full'
  readOnlyPaths: string[]
  hiddenPaths: string[]
  limits: Omit<SandboxLimits, 'freeSpaceMinBytes'>
  /** Bytes that are to stay free; undefined for as many as the server keeps free. */
  freeSpaceMinBytes: number | undefined
}

type Needed = Pick<
  Settings,
  | 'sandbox'
  | 'sandboxNetwork'
  | 'sandboxPaths'
  | 'stepMemoryMaxBytes'
  | 'stepProcesses'
  | 'stepFileMaxBytes'
  | 'freeSpaceMinBytes'
  | 'dataDir'
  | 'encryptionKeyFile'
>

/** The sandbox as the settings want it: what a server keeps on this machine is hidden from steps. */
export function toSandboxOptions(settings: Needed): RunnerSandboxOptions {
  const { dataDir, encryptionKeyFile: keyFile } = settings
  return {
    mode: settings.sandbox,
    network: settings.sandboxNetwork,
    readOnlyPaths: settings.sandboxPaths ?? [],
    hiddenPaths: [dataDir, ...(keyFile === undefined ? [] : [keyFile])],
    limits: {
      memoryMaxBytes: settings.stepMemoryMaxBytes,
      processesMax: settings.stepProcesses,
      fileMaxBytes: settings.stepFileMaxBytes,
    },
    freeSpaceMinBytes: settings.freeSpaceMinBytes,
  }
}
