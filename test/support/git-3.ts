import { writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { temporaryFolder } from './git.ts'
import { programs } from './programs.ts'

/** Debian 13's git with the defaults of Git 3.0 for new repositories: SHA-256 and reftable. As the first of a PATH. */
export async function startGit3() {
  const { path, ...folder } = await temporaryFolder()
  const newer = join(programs['git-2.47'].find() ?? '', 'git')
  const defaults = '"${GIT_DEFAULT_HASH=sha256}" "${GIT_DEFAULT_REF_FORMAT=reftable}"'
  const script = `#!/bin/sh\n: ${defaults}\nexport GIT_DEFAULT_HASH GIT_DEFAULT_REF_FORMAT\nexec ${newer} "$@"\n`
  await writeFile(join(path, 'git'), script, { mode: 0o755 })
  return { ...folder, env: { PATH: [path, process.env.PATH].join(delimiter) } }
}
