/** Whether a text has the form of a name; one that was taken since may still be the name of an old secret. */
export function isSecretName(text: string): boolean {
  return shape.test(text)
}

/** Why a text cannot name a secret, as the end of a sentence; undefined when it can. */
export function faultOfSecretName(name: string): string | undefined {
  if (!isSecretName(name)) return `is not accepted; it takes ${secretNameForm}.`
  const isTaken = takenPrefixes.test(name) || taken.has(name.toUpperCase())
  if (!isTaken) return undefined
  return (
    'is not accepted: every secret is a variable of each step, and steps have or need a variable of this ' +
    'name, or begin their own with it. Choose another name.'
  )
}

/** What may name a secret, but for the names that are taken. */
export const secretNameForm =
  '1 to 100 letters, digits and underscores, of which the first is no digit'

const shape = /^[A-Za-z_][A-Za-z0-9_]{0,99}$/

// What is set for each step, in any case: GitHub's names know no case.
const takenPrefixes = /^(SVC|GITHUB|RUNNER)_/i

// Without the right value of these, commands are not found or fail. Others have a shell, the loader or an
// interpreter run what their value says: who may set a secret may not by that read the others.
const taken = new Set(
  `
  PATH HOME USER LOGNAME SHELL PWD OLDPWD TMPDIR TMP TEMP TERM HOSTNAME TZ LANG LANGUAGE LC_ALL LC_CTYPE CI
  XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME
  ENV BASH_ENV BASHOPTS SHELLOPTS BASH_XTRACEFD IFS CDPATH PS1 PS2 PS3 PS4 PROMPT_COMMAND GLOBIGNORE
  UID EUID PPID BASHPID POSIXLY_CORRECT _ __PROTO__
  LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT LD_DEBUG LD_DEBUG_OUTPUT LD_BIND_NOW LD_ORIGIN_PATH LD_PROFILE
  LD_SHOW_AUXV LD_TRACE_LOADED_OBJECTS LD_USE_LOAD_BIAS GLIBC_TUNABLES GCONV_PATH LOCPATH NLSPATH
  NODE_OPTIONS NODE_PATH PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONWARNINGS PYTHONBREAKPOINT
  PERL5LIB PERL5OPT PERL5DB PERLLIB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS
  GIT_SSH GIT_SSH_COMMAND GIT_ASKPASS SSH_ASKPASS GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_DIR GIT_WORK_TREE
  GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT
  GIT_CONFIG_PARAMETERS GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER
  EDITOR VISUAL PAGER BROWSER LESSOPEN LESSCLOSE MAKEFLAGS GNUMAKEFLAGS MAKEFILES
  `
    .trim()
    .split(/\s+/),
)
