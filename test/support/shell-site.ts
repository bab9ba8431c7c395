import { until } from './condition.ts'
import { type Client, startService } from './service.ts'
import { pushFiles, runToEnd } from './workflow-site.ts'

const keptSettings = { SVC_RUNNER: 'on', SVC_FAILED_WORKSPACE_SECONDS: '600' }

/** A step that fails with the files, variables and secrets that a shell should have. */
const failing = `
env: { COLOR: blue }
steps:
  - run: |
      echo ADDED=yes >>"$GITHUB_ENV"
      mkdir deep; echo left >deep/left.txt; echo home >~/mine; echo temporary >/tmp/mine
  - working-directory: deep
    env: { OWN: step, SECRETLY: "\${{ secrets.TOKEN }}-1" }
    run: exit 3
  - if: always()
    env: { OWN: later }
    run: echo cleaned >cleaned
`

export type ShellSite = Awaited<ReturnType<typeof startShellSite>>

/** A server with a runner that keeps the workspaces of failed jobs. */
export async function startShellSite(env: Record<string, string> = {}, dataDir?: string) {
  const settings = { ...keptSettings, ...env }
  const service = await startService({ env: settings, ...(dataDir && { dataDir }) })
  return {
    service,
    env: settings,
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

/** Pushes a workflow to a repository and runs it; the run, which has failed. */
export async function failRun(client: Client, name: string, text = failing) {
  await pushFiles(client, name, { '.svc/workflows/ci.yml': text })
  const run = await runToEnd(client, name)
  if (run.conclusion !== 'failure') throw new Error(`The run ended with ${run.conclusion}.`)
  return run
}

type ShellOptions = { run?: string; job?: string; terminal?: object }

/** Opens a shell in the workspace of a run. */
export async function openShell(client: Client, name: string, options: ShellOptions = {}) {
  const { run = '1', ...body } = options
  const opened = await client.post(`/repos/${name}/workflows/${run}/shells`, body)
  if (opened.status !== 201) throw new Error(`${opened.status}: ${opened.text}`)
  const path = `/repos/${name}/workflows/${run}/shells/${opened.body.id}`
  let start = 0
  let after = 0
  let output = ''
  let end: { exitCode: number | null; reason: string } | undefined

  async function read(wait = 1): Promise<void> {
    const { status, body, text } = await client.get(`${path}/output?after=${after}&wait=${wait}`)
    if (status !== 200) throw new Error(`${status}: ${text}`)
    output += Buffer.from(body.data, 'base64').toString()
    after = body.next
    end = body.end ?? undefined
  }

  return {
    path,
    id: opened.body.id as string,
    opened: opened.body,
    /** What it has printed, as far as it was read. */
    output: () => output,

    /** Types a text; `isEnd` ends standard input. */
    async write(text: string, isEnd = false): Promise<void> {
      const data = Buffer.from(text).toString('base64')
      const response = await client.post(`${path}/input`, { start, data, end: isEnd })
      if (response.status !== 200) throw new Error(`${response.status}: ${response.text}`)
      start = response.body.next
    },

    /** Reads until its output has a text. */
    async shows(text: RegExp): Promise<void> {
      await until(`the shell shows ${text}`, async () => {
        if (!end && !text.test(output)) await read()
        if (end && !text.test(output)) throw new Error(`It ended (${end.reason}): ${output}`)
        return text.test(output)
      })
    },

    /** Reads until it has ended; how. */
    async ended(): Promise<{ exitCode: number | null; reason: string }> {
      return until('the shell has ended', async () => {
        if (!end) await read()
        return end
      })
    },
  }
}
