import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Host } from './host.ts'
import type { Workspace } from './workspace.ts'

// The guarantees of svc as git settings: pushes are durable and checked before they are acknowledged, and no
// request waits for maintenance.
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

/** The two hosts of a peer: one with repositories as durable as those of svc, one with git's defaults. */
export function bareHosts(options: Options): { durable: Host; defaults: Host } {
  const { config = {} } = options
  return {
    durable: bareHost({ ...options, config: { ...config, ...asDurableAsSvc } }, 'durable'),
    defaults: bareHost(options, 'defaults'),
  }
}

function bareHost({ workspace, folder, address, config = {} }: Options, kind: string): Host {
  const pathOf = (name: string) => join(folder, kind, `${name}.git`)
  /** Creates a repository with git. */
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
