/** Keeps track of running tasks, so that something can wait for them. */
export function createTaskGroup() {
  const running = new Set<Promise<unknown>>()

  return {
    /** Adds a task, which leaves the group when it settles; the caller handles its failure. */
    add<T>(task: Promise<T>): Promise<T> {
      const added = task.finally(() => running.delete(added))
      running.add(added)
      return added
    },

    size: () => running.size,

    /** Waits until one of the tasks settles. */
    next: (): Promise<unknown> => Promise.race(running),

    /** Waits until all tasks of this moment have settled. */
    async settled(): Promise<void> {
      await Promise.allSettled(running)
    },
  }
}
