import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const execute = promisify(execFile)
const asUnprivilegedUser = [
  '--reuid=65534',
  '--regid=65534',
  '--clear-groups',
  '--',
  process.execPath,
]

/** For a test's `skip`: only root can become another user, who cannot access the files of these tests. */
export async function withoutUnprivilegedUser(file: string): Promise<string | false> {
  if (process.getuid?.() !== 0) return 'these tests run as an ordinary user already'
  try {
    await execute('setpriv', [...asUnprivilegedUser, '--check', file], { cwd: '/' })
    return false
  } catch {
    return 'needs a checkout and a Node that every user can read'
  }
}

/** Runs the tests of a file as an ordinary user; rejects with their report when one fails. */
export async function testAsUnprivilegedUser(file: string): Promise<void> {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  await execute('setpriv', [...asUnprivilegedUser, '--test', file], {
    cwd: '/',
    env,
  }).catch((error) => {
    throw new Error(`${error.stdout}${error.stderr}`)
  })
}
