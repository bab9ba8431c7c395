import { shellWord } from '#base/shell-word.ts'

/** The first admin token, or the path of the file that holds it. */
type Token = { value: string } | { path: string }

type Options = {
  baseUrl: string
  sshUrl: string | null
  token: Token
  /** Logs a browser in once. */
  loginUrl: string | undefined
}

type SshLines = { baseUrl: string; sshUrl: string; inShell: string }

/** Formats the output of the first start: the admin token or its file, and commands to paste. */
export function toWelcome(options: Options): string {
  const { baseUrl, sshUrl, token, loginUrl } = options
  const inShell = toShell(token)
  // For one command: in an address the token would stay in the settings of the clone.
  const git = `git -c http.extraHeader="Authorization: Bearer ${inShell}"`
  return `
svc is running at ${baseUrl}

${announce(token)}
${loginUrl === undefined ? '' : toLoginLine(loginUrl)}
Try it from inside any Git project: create a repository, push to it, clone it back.

curl -sS ${baseUrl}/repos -H "Authorization: Bearer ${inShell}" -H 'Content-Type: application/json' -d '{"name":"hello"}'
${git} push ${baseUrl}/repos/hello.git HEAD:main
${git} clone ${baseUrl}/repos/hello.git hello-again
${sshUrl === null ? '' : toSshLines({ baseUrl, sshUrl, inShell })}
On any machine where npm has installed this package, svc login ${baseUrl} makes the command line a client of this server: svc --help.

The API is described at ${baseUrl}/docs

`
}

/** The first line of each start on a terminal, and a part of the welcome. */
export function toLoginLine(loginUrl: string): string {
  return `\nTo see it in a browser, open this address within ten minutes. It logs in once, as the administrator:\n\n    ${loginUrl}\n`
}

function announce(token: Token): string {
  if ('value' in token) return `Your admin token, shown only this once:\n\n    ${token.value}`
  return `Your admin token is in this file, which only its owner can read. Store the token elsewhere and remove the file:\n\n    ${token.path}`
}

// The result is for use within double quotes.
function toShell(token: Token): string {
  return 'value' in token ? token.value : `$(cat ${shellWord(token.path)})`
}

function toSshLines({ baseUrl, sshUrl, inShell }: SshLines): string {
  return `
The same over SSH, with your key (ssh-keygen -t ed25519 makes one):

curl -sS ${baseUrl}/keys -H "Authorization: Bearer ${inShell}" -H 'Content-Type: application/json' -d "{\\"name\\":\\"laptop\\",\\"publicKey\\":\\"$(cat ~/.ssh/id_ed25519.pub)\\"}"
git clone ${sshUrl}/hello.git hello-over-ssh
ssh ${sshUrl} help
`
}
