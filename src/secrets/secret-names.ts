import { refusedName } from '#base/problem.ts'
/** Whether a text has the form of a secret's name. Old secrets may have names that were reserved later. */
export function isSecretName(text: string): boolean {
  return shape.test(text)
}

/** Why a name is not accepted for a secret, as the end of a sentence; undefined if it is. */
export function faultOfSecretName(name: string): string | undefined {
  if (!isSecretName(name)) return refusedName(name, secretNameForm)
  const upper = name.toUpperCase()
  if (!reserved.test(upper) && !taken.has(upper) && !executed.has(upper)) return undefined
  return (
    `cannot be "${name}": steps have a variable of this name, or programs execute or load what it says. Choose another ` +
    'name; the `env` of a step can pass the value on under this one.'
  )
}

/** The form of names; reserved names are not accepted. */
export const secretNameForm =
  '1 to 100 letters, digits and underscores, of which the first is no digit'

const shape = /^[A-Za-z_][A-Za-z0-9_]{0,99}$/

// In upper case: names are case-insensitive on GitHub. Families of variables that are set for each step.
const reserved = /^(SVC|GITHUB|RUNNER)_/

// Commands fail if these variables have other values.
const taken = setOf(`
  PATH HOME USER LOGNAME SHELL PWD OLDPWD TMPDIR TMP TEMP TERM HOSTNAME TZ LANG LANGUAGE LC_ALL LC_CTYPE CI IFS _ __PROTO__
`)

// The loader, shells and interpreters execute or load what these variables name. A workflow file may contain such a
// name without meaning a secret (`NODE_OPTIONS=… npm test`), or inherit all secrets.
const executed = setOf(`
  LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH BASH_ENV ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND ZDOTDIR
  NODE_OPTIONS PYTHONPATH PYTHONHOME PYTHONSTARTUP PERL5OPT PERL5LIB PERL5DB RUBYOPT RUBYLIB
  JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS DOTNET_STARTUP_HOOKS
  GIT_SSH GIT_SSH_COMMAND GIT_ASKPASS GIT_EXTERNAL_DIFF GIT_EXEC_PATH GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS
  GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_EDITOR GIT_PAGER GIT_PROXY_COMMAND
`)

function setOf(names: string): ReadonlySet<string> {
  return new Set(names.trim().split(/\s+/))
}
