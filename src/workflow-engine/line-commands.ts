/** What a line of output asks of the runner. */
export type LineCommand =
  | { kind: 'add-mask'; value: string }
  /** It does nothing; the advice is for whoever reads the log. */
  | { kind: 'disabled'; advice: string }

const advices: Record<string, string> = {
  'set-output': 'write `name=value` to the file named by $GITHUB_OUTPUT',
  'set-env': 'write `name=value` to the file named by $GITHUB_ENV',
  'add-path': 'write the folder to the file named by $GITHUB_PATH',
  'save-state': 'there are no actions here that have a later part',
}

/**
 * Reads the workflow commands (`::name::value`) of one step, line by line, with `::stop-commands::TOKEN` and
 * `::TOKEN::`. Those that only concern how a log looks stay lines like any other.
 */
export function createCommandReader(): (line: string) => LineCommand | undefined {
  let stopToken: string | undefined
  return (line) => {
    const command = line.trimStart()
    const [start = '', name = ''] = /^::([^\s:]+)/.exec(command) ?? []
    const end = command.indexOf('::', start.length)
    if (start === '' || end === -1) return undefined
    const [text = ''] = command.slice(end + 2).split(/[\r\n]/, 1)
    if (stopToken !== undefined) {
      if (name === stopToken) stopToken = undefined
      return undefined
    }
    if (name === 'stop-commands' && text.trim() !== '') {
      stopToken = text.trim()
      return undefined
    }
    if (name === 'add-mask') return { kind: 'add-mask', value: unescaped(text) }
    const advice = Object.hasOwn(advices, name) ? advices[name] : undefined
    if (advice === undefined) return undefined
    return { kind: 'disabled', advice: `::${name}:: does nothing here; ${advice}.` }
  }
}

// As the toolkit escapes values: https://github.com/actions/toolkit, command.ts.
function unescaped(text: string): string {
  return text.replaceAll(/%0D/gi, '\r').replaceAll(/%0A/gi, '\n').replaceAll('%25', '%')
}
