import type { Store } from './store.ts'

type Dependencies = {
  pathOf: (id: string) => string
  create: (id: string, defaultBranch?: string) => Promise<void>
  place: (id: string) => Promise<void>
  remove: (id: string) => Promise<void>
}

/** Repositories that are directories of this machine. */
export function createLocalStore({ pathOf, create, place, remove }: Dependencies): Store {
  return {
    start: async () => ({ [Symbol.asyncDispose]: async () => {} }),
    at: async ({ id }) => pathOf(id),
    open: async (id) => pathOf(id),

    async create(id, defaultBranch) {
      await create(id, defaultBranch)
      return {}
    },

    async adopt(id) {
      await place(id)
      return async () => {}
    },

    release: async () => {},
    remove,
    sweep: async () => {},
    // One server or command at a time works on a directory; its locks say more.
    isRunning: async () => false,
    shared: undefined,
    [Symbol.asyncDispose]: async () => {},
  }
}
