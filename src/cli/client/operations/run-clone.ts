import { CommandError } from '../command-error.ts'
import { helperSettings } from '../credential-settings.ts'
import { at } from '../display.ts'
import { path } from '../http-client.ts'
import type { Work } from '../operation.ts'
import { showResult } from '../show-result.ts'

/** `svc clone` */
export async function runClone(work: Work): Promise<void> {
  const { client, input, git } = work
  // Not the name in the response: the server must not choose where Git writes.
  const name = input.argument('name')
  const repository = await client.json({ method: 'GET', path: path`/repos/${name}` })
  const folder = input.argument('folder') || name
  const isSsh = input.flag('ssh') === true
  const address = isSsh
    ? at(repository, 'cloneUrls.ssh')
    : client.url + path`/repos/${`${name}.git`}`
  // Git would run commands for other schemes.
  if (typeof address !== 'string' || !/^(https?|ssh):\/\/[^-]/.test(address)) {
    throw new CommandError('failure', 'The server has no address for SSH; clone without --ssh.')
  }
  const settings = isSsh ? [] : helperSettings(work).map(([key, value]) => `${key}=${value}`)
  const options = settings.flatMap((setting) => ['--config', setting])
  const code = await git.show(['clone', ...options, '--', address, folder])
  if (code !== 0) throw new CommandError('failure', 'git clone failed; its message is above.')
  showResult(work, { name, folder, address }, `Cloned ${name} into ${folder}.`)
}
