import type { KnownServer } from './server-list.ts'
import type { UserGit } from './user-git.ts'

const outside = { isOutside: true }

/**
 * Hands a token to Git's credential helper. Returns whether it keeps it: `cache` forgets within minutes, and a helper
 * may fail, so that the token then belongs into the file.
 */
export async function storeCredential(
  git: UserGit,
  server: Required<KnownServer>,
): Promise<boolean> {
  const { url, token } = server
  const configured = await git.run(['config', '--get-urlmatch', 'credential.helper', url], outside)
  const helper = configured.out.trim()
  if (configured.code !== 0 || /^(cache\b.*|)$|git-credential(?!-)/.test(helper)) return false
  const input = `${toInput(server)}password=${token}\n\n`
  const { code } = await git.run(['credential', 'approve'], { ...outside, input })
  return code === 0 && (await readCredential(git, server)) === token
}

/** Reads a token from Git's credential helper. */
export async function readCredential(
  git: UserGit,
  server: KnownServer,
): Promise<string | undefined> {
  const input = `${toInput(server)}\n`
  const { code, out } = await git
    .run(['credential', 'fill'], { ...outside, input })
    .catch(() => ({ code: 1, out: '' }))
  const password = /^password=(.*)$/m.exec(out)?.[1]
  return code === 0 && password ? password : undefined
}

/** Removes a token from Git's credential helper. */
export async function forgetCredential(git: UserGit, server: KnownServer): Promise<void> {
  await git.run(['credential', 'reject'], { ...outside, input: `${toInput(server)}\n` })
}

// The name of the server is the user: there can be several logins for one address.
function toInput({ name, url }: KnownServer): string {
  const { protocol, host } = new URL(url)
  return `protocol=${protocol.slice(0, -1)}\nhost=${host}\nusername=${name}\n`
}
