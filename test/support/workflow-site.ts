import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { git, temporaryFolder } from './git.ts'
import type { Client } from './service.ts'

/** Files by their path, each with its text or with more than that. */
export type Files = Record<string, string>

/** A workflow of one step in the short form. */
export const oneStep = (run: string) => ({
  '.svc/workflows/ci.yml': `steps:\n  - name: Only\n    run: |\n${run.replace(/^/gm, '      ')}\n`,
})

/** Makes a repository, if need be, with one commit of some files on a branch; the commit's id. */
export async function pushFiles(
  client: Client,
  name: string,
  files: Files,
  { branch = 'main', message = 'Files' }: { branch?: string; message?: string } = {},
): Promise<string> {
  await client.post('/repos', { name })
  await using folder = await temporaryFolder()
  const run = async (...args: string[]) => (await git(folder.path, args)).stdout
  await run('init', '--quiet', `--initial-branch=${branch}`)
  await run('remote', 'add', 'origin', client.remote(name))
  const [tip = ''] = (await run('ls-remote', 'origin', `refs/heads/${branch}`)).split('\t')
  if (tip !== '') {
    await run('fetch', '--quiet', 'origin', tip)
    await run('reset', '--quiet', '--hard', tip)
  }
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder.path, path)), { recursive: true })
    await writeFile(join(folder.path, path), text)
  }
  await run('add', '--all')
  await run('commit', '--quiet', '--allow-empty', '-m', message)
  await run('push', '--quiet', 'origin', `HEAD:refs/heads/${branch}`)
  return await run('rev-parse', 'HEAD')
}

/** Starts a run and waits for its end; returns the run as the API does. */
export async function runToEnd(client: Client, name: string, body: object = {}) {
  const started = await client.post(`/repos/${encodeURIComponent(name)}/workflows`, body)
  if (started.status !== 202) throw new Error(`${started.status}: ${started.text}`)
  return endOf(client, name, started.body.id)
}

/** Waits for the end of a run. */
export async function endOf(client: Client, name: string, id: string) {
  for (let round = 0; round < 10; round++) {
    const { body } = await client.get(`/repos/${encodeURIComponent(name)}/workflows/${id}?wait=30`)
    if (body.status === 'completed') return withoutNetworkLines(body)
  }
  throw new Error(`the run ${id} does not end`)
}

// The network that SVC_TEST_STEP_HOSTS gives to steps is not the subject of these tests.
function withoutNetworkLines<T extends { result: { steps: { output: string }[] } | null }>(
  run: T,
): T {
  if (!process.env.SVC_TEST_STEP_HOSTS) return run
  for (const step of run.result?.steps ?? []) {
    step.output = step.output.replace(/^Network: .*\n/, '')
  }
  return run
}

/** The whole log of a run. */
export async function logOf(client: Client, name: string, id: string): Promise<string> {
  return (await client.get(`/repos/${encodeURIComponent(name)}/workflows/${id}/logs`)).text
}
