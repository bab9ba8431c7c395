import { rmSync } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { holdLock } from '#base/lock-file.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { Git } from '#git/process/git-process.ts'

/** Repositories that are being made, in `staging`. */
export type Drafts = {
  /** Creates an empty draft, to be filled and then placed. Returns its path. */
  draft: (id: string, format: ObjectFormat, defaultBranch?: string) => Promise<string>
  /** The path of a draft. */
  draftOf: (id: string) => string
  /** Removes a draft and its scratch files. */
  discard: (id: string) => Promise<void>
  /** A path for temporary files of a draft, removed with it. */
  scratchOf: (id: string, name: string) => string
  removeScratch: (id: string, name: string) => Promise<void>
  /** Locks a draft against removal; undefined when another process holds the lock. */
  hold: (id: string) => Promise<Disposable | undefined>
}

const maxRetries = 5

export function createDrafts({ staging, git }: { staging: string; git: Git }): Drafts {
  const lockOf = (id: string) => join(staging, `${id}.lock`)
  const draftOf = (id: string) => join(staging, `${id}.git`)
  const scratchOf = (id: string, name: string) => join(staging, `${id}.${name}`)

  return {
    draftOf,
    scratchOf,

    async draft(id, format, defaultBranch) {
      // Not left to git, which would create missing parents, too: on the wrong disk when the data directory is not mounted.
      await mkdir(draftOf(id))
      await git.run(gitCommands.init(draftOf(id), format, defaultBranch))
      return draftOf(id)
    },

    async discard(id) {
      // A git that is being ended may still create files.
      for (const name of await readdir(staging)) {
        if (!name.startsWith(`${id}.`) || join(staging, name) === lockOf(id)) continue
        await rm(join(staging, name), { recursive: true, force: true, maxRetries })
      }
    },

    removeScratch: (id, name) =>
      rm(scratchOf(id, name), { recursive: true, force: true, maxRetries }),

    async hold(id) {
      const held = await holdLock(lockOf(id))
      if (!held) return undefined
      return {
        [Symbol.dispose]() {
          rmSync(lockOf(id), { force: true })
          held[Symbol.dispose]()
        },
      }
    },
  }
}
