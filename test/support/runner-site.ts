import type { Plan } from '#actions/workflow-engine/plan.ts'
import { createProject } from './git.ts'
import { planFor, startRunner } from './runner.ts'
import { startRunnerServer } from './runner-server.ts'

type Options = {
  server?: Parameters<typeof startRunnerServer>[0]
  /** For the runner's command line. */
  args?: string[]
  env?: Record<string, string>
}

/** A server that hands out runs, a project that they are of, and a runner that executes them. */
export async function startRunnerSite({ server: wanted, args, env }: Options = {}) {
  await using stack = new AsyncDisposableStack()
  const server = stack.use(await startRunnerServer(wanted))
  const project = stack.use(await createProject())
  const start = {
    server: server.url,
    token: server.token,
    ...(args && { args }),
    ...(env && { env }),
  }
  const runner = stack.use(await startRunner(start))
  const owned = stack.move()
  return {
    server,
    project,
    runner,

    /** Puts a run of the project's head into the queue, with one workflow file. */
    async queue(text: string, changes: Partial<Plan> = {}) {
      const [plan, pack] = await planFor(project, text, changes)
      return server.queue(plan, pack)
    },

    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
