/** A workflow command in a line of output. */
export type LineCommand =
  | { kind: 'add-mask'; value: string }
  /** Keeps a value for the `post` of the same action. */
  | { kind: 'save-state'; name: string; value: string }
  /** An error, a warning or a notice; the line stays in the log. */
  | {
      kind: 'annotation'
      level: 'error' | 'warning' | 'notice'
      /** By names in lower case. */
      properties: Record<string, string>
      message: string
    }
  /** A line for debugging. */
  | { kind: 'debug' }
  /** An unsupported command; the advice is shown in the log. */
  | { kind: 'disabled'; advice: string }

const replacements: Record<string, string> = {
  'set-output': 'write `name=value` to the file named by $GITHUB_OUTPUT',
  'set-env': 'write `name=value` to the file named by $GITHUB_ENV',
  'add-path': 'write the folder to the file named by $GITHUB_PATH',
}

/**
 * Creates a reader of the workflow commands (`::name::value`) of one step, line by line, which honours
 * `::stop-commands::TOKEN` and `::TOKEN::`. Commands that only format the log remain ordinary lines. As on GitHub, the case
 * of names does not matter.
 */
export function createCommandReader(): (line: string) => LineCommand | undefined {
  let stopToken: string | undefined
  return (line) => {
    const command = line.trimStart()
    const [start = ''] = /^::[^\s:]+/.exec(command) ?? []
    const name = start.slice(2).toLowerCase()
    const end = command.indexOf('::', start.length)
    if (start === '' || end === -1) return undefined
    const [text = ''] = command.slice(end + 2).split(/[\r\n]/, 1)
    if (stopToken !== undefined) {
      if (name === stopToken) stopToken = undefined
      return undefined
    }
    if (name === 'stop-commands' && text.trim() !== '') {
      stopToken = text.trim().toLowerCase()
      return undefined
    }
    if (name === 'add-mask') return { kind: 'add-mask', value: unescaped(text) }
    if (name === 'save-state') {
      const properties = readProperties(command.slice(start.length, end))
      return { kind: 'save-state', name: properties.name ?? '', value: unescaped(text) }
    }
    if (name === 'error' || name === 'warning' || name === 'notice') {
      const properties = readProperties(command.slice(start.length, end))
      return { kind: 'annotation', level: name, properties, message: unescaped(text) }
    }
    if (name === 'debug') return { kind: 'debug' }
    const advice = Object.hasOwn(replacements, name) ? replacements[name] : undefined
    if (advice === undefined) return undefined
    return { kind: 'disabled', advice: `::${name}:: is not supported; ${advice}.` }
  }
}

// In `::name key=value,key=value::`, values also escape colons and commas.
function readProperties(text: string): Record<string, string> {
  const pairs = text.split(',').flatMap((pair) => {
    const [key = '', ...value] = pair.split('=')
    if (key.trim() === '') return []
    const escaped = value.join('=').trim()
    return [
      [
        key.trim().toLowerCase(),
        unescaped(escaped.replaceAll(/%3A/gi, ':').replaceAll(/%2C/gi, ',')),
      ],
    ]
  })
  return Object.fromEntries(pairs)
}

// The escapes of https://github.com/actions/toolkit, command.ts.
function unescaped(text: string): string {
  return text.replaceAll(/%0D/gi, '\r').replaceAll(/%0A/gi, '\n').replaceAll('%25', '%')
}
