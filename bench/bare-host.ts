import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Host } from './host.ts'
import type { Workspace } from './workspace.ts'

// What svc always does, said in git's words: nothing is acknowledged that is not on the disk or is not
// a sound object, and no request waits for housekeeping.
const asDurableAsSvc = {
  'core.fsync': 'all',
  'receive.unpackLimit': '1',
  'transfer.fsckObjects': 'true',
  'receive.autogc': 'false',
}

type Options = {
  workspace: Workspace
  /** Folder of all repositories. */
  folder: string
  /** The address of that folder at the peer. */
  address: string
  config?: Record<string, string>
}

/** The two hosts that a peer is: one with repositories as durable as those of svc, one with git's defaults. */
export function bareHosts(options: Options): { durable: Host; defaults: Host } {
  const { config = {} } = options
  return {
    durable: bareHost({ ...options, config: { ...config, ...asDurableAsSvc } }, 'durable'),
    defaults: bareHost(options, 'defaults'),
  }
}

function bareHost({ workspace, folder, address, config = {} }: Options, kind: string): Host {
  const pathOf = (name: string) => join(folder, kind, `${name}.git`)
  /** Has git make a repository. */
  async function make(name: string, command: string[]) {
    const path = pathOf(name)
    await workspace.git([...command, path])
    for (const [key, value] of Object.entries(config)) {
      await workspace.git(['-C', path, 'config', key, value])
    }
    return `${address}/${kind}/${name}.git`
  }
  return {
    create: (name) => make(name, ['init', '--quiet', '--bare', '--initial-branch=main']),
    // Unlike a fetch, a clone writes all refs into one file.
    copy: (name, source) => make(name, ['clone', '--quiet', '--mirror', '--no-hardlinks', source]),
    remove: (name) => rm(pathOf(name), { recursive: true }),
  }
}
