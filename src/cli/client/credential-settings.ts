import { shellWord } from '#base/shell-word.ts'
import type { Work } from './operation.ts'

/** The settings that make `svc git-credential` the only helper for a server. */
export function helperSettings({ client, launcher }: Pick<Work, 'client' | 'launcher'>) {
  const key = `credential.${client.url}.helper`
  // The empty value drops the helpers of the user's configuration: the token does not go into their stores.
  return [
    [key, ''],
    [key, `!${shellWord(launcher)} git-credential`],
  ] as const
}

/** Writes them into the configuration of the clone. */
export async function setCredentialHelper(work: Work): Promise<void> {
  for (const [index, [key, value]] of helperSettings(work).entries()) {
    const mode = index === 0 ? '--replace-all' : '--add'
    await work.git.run(['config', '--local', mode, key, value])
  }
}
