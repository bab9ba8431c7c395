import { CommandError } from '../command-error.ts'
import { setCredentialHelper } from '../credential-settings.ts'
import { textAt } from '../display.ts'
import type { Work } from '../operation.ts'
import { showResult } from '../show-result.ts'

/** `svc repos create` */
export async function runCreate(work: Work): Promise<void> {
  const { client, input, git } = work
  const remote = input.option('remote')
  const { code } = remote === undefined ? { code: 0 } : await git.run(['rev-parse', '--git-dir'])
  if (code !== 0) {
    throw new CommandError(
      'failure',
      'Nothing was created: --remote takes a clone, and here is none.',
    )
  }
  const body = await client.json({
    method: 'POST',
    path: '/repos',
    body: { name: input.argument('name'), defaultBranch: input.option('defaultBranch') },
  })
  const name = textAt(body, 'name')
  if (remote !== undefined) {
    const address = `${client.url}/repos/${name}.git`
    const added = await git.run(['remote', 'add', '--', remote, address])
    if (added.code !== 0) {
      throw new CommandError(
        'failure',
        `Created ${name}, but Git refuses the remote; add it under another name: git remote add NAME ${address}`,
      )
    }
    await setCredentialHelper(work)
  }
  showResult(work, body, `Created ${name}.`)
}
