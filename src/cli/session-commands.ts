import type { Command } from 'commander'
import type { ClientContext, OptionValues } from './servers/connect.ts'

const loginHelp = `
At a server with an identity provider, your browser logs you in, or a code on a
machine without one; else the token is asked for, without echo, or read from
standard input. Git's credential helper keeps it, if you have one that stores
passwords, else ~/.config/svc/servers.json, which only you can read. SVC_URL and
SVC_TOKEN take precedence over logins.

  svc login https://git.example.com --name work < token.txt
  xdg-open "$(svc login --web)"`

const credentialHelp = `
Git runs it as a credential helper: gitcredentials(7). svc clone and
svc repos create --remote set it up. It responds for servers that you are
logged in to, and for SVC_URL. Logins are changed by svc login and svc logout
only, so store and erase do nothing.

  git config --global credential.https://git.example.com.helper \\
    "!svc git-credential"`

const completionsHelp = `
  bash: svc completions bash > ~/.local/share/bash-completion/completions/svc
  zsh:  svc completions zsh > "\${fpath[1]}/_svc"
  fish: svc completions fish > ~/.config/fish/completions/svc.fish

The shell gets its candidates from svc completions SHELL -- WORDS, among them
the names of repositories of the server that the command is for.`

/** Adds the commands about logins: which servers there are, and their tokens. */
export function addSessionCommands(program: Command, context: ClientContext): void {
  const { terminal } = context
  program
    .command('login [url]')
    .description('log in to a server by browser, code or token; --web logs in a browser')
    .option('--name <name>', 'name of the server (default: its host)')
    .option('--browser', 'log in by your browser, which gets a token of 90 days')
    .option('--code', 'the same by a code, entered in a browser anywhere')
    .option('--token', 'ask for a token, also with an identity provider')
    .option('--web', 'print an address that logs a browser in once')
    .option('--server <name>', 'with --web: a server of svc servers')
    .option('--timeout <seconds>', 'time for a response of the server (default: 60)')
    .option('--json', 'print JSON')
    .addHelpText('after', loginHelp)
    .action(async (url: string | undefined, options: OptionValues) => {
      if (options.web === true) {
        const { printLoginLink } = await import('./servers/logins.ts')
        await printLoginLink(context, url, options)
        return
      }
      const { logIn } = await import('./servers/logins.ts')
      await logIn(context, url, options)
    })
  program
    .command('logout [name]')
    .description('forget the token of a server (default: the default server)')
    .option('--json', 'print JSON')
    .action(async (name: string | undefined, options: OptionValues) => {
      const { logOut } = await import('./servers/logins.ts')
      await logOut(context, name, options)
    })

  const servers = program.command('servers').description('list servers, and choose the default')
  servers
    .command('list', { isDefault: true })
    .description('list the servers that you are logged in to')
    .option('--json', 'print JSON')
    .action(async (options: OptionValues) => {
      const { listServers } = await import('./servers/logins.ts')
      await listServers(context, options)
    })
  servers
    .command('default <name>')
    .description('use this server where no other is chosen')
    .option('--json', 'print JSON')
    .action(async (name: string, options: OptionValues) => {
      const { chooseDefault } = await import('./servers/logins.ts')
      await chooseDefault(context, name, options)
    })

  program
    .command('git-credential <operation>')
    .description('credential helper of Git: get, store or erase')
    .addHelpText('after', credentialHelp)
    .action(async (operation: string) => {
      const { answerGit } = await import('./servers/git-credential.ts')
      await answerGit(context, operation)
    })
  program
    .command('completions <shell> [words...]')
    .description('print completions for bash, zsh or fish, or the candidates for the last word')
    .addHelpText('after', completionsHelp)
    .action(async (shell: string, words: string[]) => {
      const { toCompletions } = await import('./completions.ts')
      const script = toCompletions(shell)
      if (words.length === 0) return terminal.out(script)
      const { candidatesFor } = await import('./completions.ts')
      for (const { word, description } of await candidatesFor(program, context, words))
        terminal.out(shell === 'fish' && description ? `${word}\t${description}\n` : `${word}\n`)
    })
}
