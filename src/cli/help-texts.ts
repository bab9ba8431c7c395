import type { Setting } from '#config/setting.ts'
import { settings } from '#config/settings-table.ts'

export const secretsHelp = `
Workflow steps get the secrets of their repository and its namespace that their
workflow file names, as environment variables. Values cannot be read back.

  svc secrets set site NPM_TOKEN < token.txt
  printf %s "$TOKEN" | svc secrets set site NPM_TOKEN`

export const doctorHelp = `
Checks git, the settings, the data directory and its keys, the database, the
disk, the ports, the sandbox and every repository, whether the service runs or
not. It changes nothing. Run it as the user that runs the service, with the same
settings. Exit code: 0 without faults, also with warnings; 1 with faults.`

export const mcpHelp = `
An agent's client starts this command, and talks to it over standard input and
output. It calls the server that you are logged in to, or that of SVC_URL with
the token in SVC_TOKEN. The tools have the rights and limits of the token. A
client that supports HTTP needs only the server: its MCP server is at /mcp.
docs/agents.md has the configuration of clients.`

export const runnerHelp = `
A runner needs git on the PATH, but no data directory; with bubblewrap
installed, steps run in a sandbox. Create a token on the server with svc tokens
create --permission runner, and set it as SVC_RUNNER_TOKEN, or use --token - and
standard input: all users of the machine can read the command line. The settings
of the sandbox, from SVC_SANDBOX to SVC_STEP_FILE_MAX in svc serve --help, are
environment variables here, too; SVC_TOOLS names folders with tools by version.
The server sets the limits of output and time. The first SIGTERM or Ctrl-C
returns the runs to the queue, the second one exits at once.`

export const runnerDoctorHelp = `
Checks git, the settings, the sandbox with the limit of memory, and the tools in
the folders of SVC_TOOLS and on the PATH, with their versions. It changes
nothing and needs no server. Run it as the user that runs the runner, with the
same settings. Exit code: 0 without faults, also with warnings; 1 with faults.`

export const runHelp = `
Without files, all workflows in .svc/workflows run, or if there are none, those
in .github/workflows. --check accepts files anywhere, also outside a repository,
and notes what is valid but has no effect, and which hosts of "network" the
server that you are logged in to does not allow. Each job gets a copy of your
working tree with uncommitted changes, but without ignored files; steps do not
change your own tree. The settings of the sandbox and its limits, from
SVC_SANDBOX on in svc serve --help, are environment variables. Ctrl-C cancels
the run; a second one exits at once. Exit code: 0 for success, 1 for a run
without success, 2 for invalid files and invalid arguments, such as an unknown
job, 130 when interrupted.

  svc run --check                                   check all files
  svc run --check .github/workflows/ci.yml          check a file where it is
  svc run ci.yml --job test                         run one job of one file
  svc run deploy.yml --input level=debug --secret API_KEY
  svc run --network registry.npmjs.org,'*.pypi.org' let steps reach these hosts`

export const backupHelp = `
The first backup copies everything; later backups to the same folder copy only
what is new. Until a backup is complete, the folder holds the previous one, even
after a crash. A folder holds backups of one service only.`

export const adoptHelp = `
Moves what a server without SVC_STORE has left in SVC_DATA_DIR, artifacts and
caches of runs included; the rows must be in the PostgreSQL database of
SVC_DATABASE_URL. To move from SQLite, back up
first and restore into an empty PostgreSQL database. No server may run. When it
is interrupted, repeat it: what was moved stays moved.`

export const restoreHelp = `
SVC_DATA_DIR must not exist, or be an empty directory. With SVC_DATABASE_URL,
the rows go into that database, which must be empty. A backup of SQLite can be
restored into PostgreSQL, and the other way round. To restore into a shared
store, leave SVC_STORE unset, and then run svc store adopt with it.`

export const programHelp = `
Commands work on a server that you are logged in to (svc login), or that SVC_URL
names; without one, on the data directory of SVC_DATA_DIR.
Exit codes: 0 success, 1 failure, 2 invalid arguments or settings, 3 server not
reached, 4 token missing or refused. svc serve --help lists the settings.`

export function settingsHelp(): string {
  const entries = Object.values<Setting<unknown>>(settings).map(
    ({ variable, description, accepts, fallback }) =>
      `  ${variable}${fallback && `=${fallback}`}\n${wrap(description)}${wrap(`Takes ${accepts}.`)}`,
  )
  return `\nSettings (environment variables) with their defaults:\n\n${entries.join('')}`
}

/** Breaks a text into indented lines of up to 80 characters. */
function wrap(text: string): string {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`
    if (lines.length === 0 || longer.length > 74) lines.push(word)
    else lines[lines.length - 1] = longer
  }
  return lines.map((line) => `      ${line}\n`).join('')
}
