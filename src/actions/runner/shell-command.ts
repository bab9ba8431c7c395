import type { ShellStart } from '../runner-api/shell-api.ts'
import type { Folders, WorkspaceCommand } from '../sandbox/sandbox.ts'
import type { CommandSetting } from '../workflow-engine/failed-workspace.ts'

// Start-up files are not read, as in steps. The directory of the step may be gone.
const shell = 'command -v bash >/dev/null && exec bash --noprofile --norc; exec sh'
const enter = 'cd "$1" 2>/dev/null'

// script(1) makes the terminal, and runs its command with $SHELL, which the job may have set.
const onTerminal = `${enter}
command -v script >/dev/null || {
  echo 'The runner lacks script(1) of util-linux, so there is no terminal; commands can be piped to svc runs shell.'
  exit 127
}
exec env SHELL=/bin/sh script -qefc "$2" /dev/null`

/** The command of a shell with the variables, the directory and the network of a step. */
export function shellCommand(
  { columns, rows, term }: ShellStart,
  { setting, inside }: { setting: CommandSetting; inside: Folders },
): Pick<WorkspaceCommand, 'command' | 'env' | 'cwd' | 'network'> {
  const { env, cwd, network } = setting
  const hasTerminal = columns !== null && rows !== null
  // Standard input is no terminal for script(1), which would create one without a size and without echo.
  const inner = `stty echo rows ${Number(rows)} cols ${Number(columns)}; unset SHELL; ${shell}`
  return {
    command: hasTerminal
      ? ['/bin/sh', '-c', onTerminal, 'sh', cwd, inner]
      : ['/bin/sh', '-c', `${enter}; ${shell}`, 'sh', cwd],
    env: hasTerminal ? { ...env, TERM: term, PS1: '\\w\\$ ' } : env,
    cwd: inside.workspace,
    // The log of the step, to which its connections were written, has ended.
    ...(typeof network === 'object' && { network: { ...network, log: async () => {} } }),
    ...(network === 'none' && { network }),
  }
}
