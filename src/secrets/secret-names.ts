/** Whether a text has the form of a name. Old secrets may have names that are reserved by now. */
export function isSecretName(text: string): boolean {
  return shape.test(text)
}

/** Why a text is not a valid name, as the end of a sentence; undefined if it is. */
export function faultOfSecretName(name: string): string | undefined {
  if (!isSecretName(name)) return `is not accepted; it takes ${secretNameForm}.`
  const upper = name.toUpperCase()
  if (takenPrefixes.test(upper) || taken.has(upper)) {
    return (
      'is not accepted: every secret is a variable of each step, and steps have or need a variable of this ' +
      'name, or begin their own with it. Choose another name.'
    )
  }
  if (credential.test(upper) || !steering.some((family) => family.test(upper))) return undefined
  return (
    'is not accepted: every secret is a variable of each step, and programs take one of this name as an ' +
    'instruction, so it could change what steps run. Choose another name; the `env` of a step can pass the ' +
    'value on under this one.'
  )
}

/** The form of names; reserved names are not accepted. */
export const secretNameForm =
  '1 to 100 letters, digits and underscores, of which the first is no digit'

const shape = /^[A-Za-z_][A-Za-z0-9_]{0,99}$/

// Variables that are set for each step, in upper or lower case: names are case-insensitive on GitHub.
const takenPrefixes = /^(SVC|GITHUB|RUNNER)_/

// Names with these suffixes are credentials: no program executes or loads their values.
const credential = /_(KEY|TOKEN|SECRET|PASS|PASSWORD|PASSPHRASE|USERNAME|LOGIN|AUTH|PAT)$/

// Variables that make a program load or execute their value: they could change existing steps, and so reveal other
// secrets. Such a list is never complete.
const steering = [
  // The dynamic loader, the C library and its allocators.
  /^(LD|DYLD|MALLOC|GLIBC)_/,
  /^(GCONV_PATH|GETCONF_DIR|LOCPATH|NLSPATH|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS)$/,
  // Options of any program: TAR_OPTIONS, JAVA_OPTS, XZ_OPT, GOFLAGS, MAVEN_ARGS.
  /(^|_)(OPTIONS|OPT|ARGS|DEFAULTS|SWITCHES|PLUGINS)(_[0-9]+)?$/,
  /(OPTS|RAKEOPT)(_[0-9]+)?$/,
  /FLAGS$/,
  /^(GZIP|BZIP|BZIP2|ZIPOPT|ZIPINFO|ZIPINFOOPT|UNZIP|UNZIPOPT|RSYNC_[A-Z_]+)$/,
  // Search paths of libraries, headers and classes.
  /(LIBRARY_PATH|INCLUDE_PATH|CLASSPATH|MANPATH|INFOPATH|FPATH|CPATH|LIBPATH)$/,
  /^(PKG_CONFIG|CCACHE|DISTCC|SCCACHE)_?/,
  /(LOAD_PATH|AWKPATH|MODULEPATH|SHLIB_PATH|COMPILER_PATH|EXEC_PREFIX|PLTCOLLECTS)$/,
  // Configuration files and commands of programs: PSQLRC, BAT_CONFIG_PATH, FZF_DEFAULT_COMMAND.
  /([A-Z]{3}RC|RCFILE|CONFIG_PATH|CONFIG_DIR|CONFIGURE_PATH|CONFIG_SITE|DEFAULT_COMMAND|PROCESS_START)$/,
  // Replacements and plugins of programs.
  /(EDITOR|PAGER|ASKPASS|WRAPPER|PRELOAD)$/,
  /(^|_)(LINKER|VISUAL|BROWSER|SHELL|RSH|EXECUTABLE|EXECUTABLE_PATH)$/,
  /^(HOST)?(CC|CXX|CPP|LD|AR|AS|NM|RANLIB|STRIP|FC|OBJCOPY|OBJDUMP|LDSHARED|LDLIBS|MAKE)$/,
  /^(MAKE|MFLAGS|GNUMAKE|CMAKE_|CTEST_|NINJA_|MESON_|AUTOM4TE|ACLOCAL|M4PATH)/,
  /^LESS(OPEN|CLOSE|EDIT|KEY|KEYIN|KEY_SYSTEM|SECURE|HISTFILE)?$/,
  /^(EXINIT|VIMINIT|VIM|VIMRUNTIME|EMACS[A-Z]*|INPUTRC|TERMCAP|TERMINFO|TERMINFO_DIRS|MAILCAPS)$/,
  // Shells.
  /^(BASH|ZSH|KSH|FISH_|ZDOTDIR|PROMPT_|SHELLOPTS)/,
  /^(ENV|FCEDIT|HISTFILE|PS[0-9])$/,
  // Interpreters, compilers, and their package managers.
  /^(NODE_|NPM_CONFIG_|PNPM_|YARN_|COREPACK_|BUN_|DENO_|TS_NODE_|ELECTRON_)/,
  /^(PYTHON|PIP_|PIPX_|PIPENV_|UV_|POETRY_|PDM_|PYENV_|VIRTUAL_ENV|VIRTUALENV_|CONDA_)/,
  /^(PERL|RUBY|GEM_|BUNDLE_|BUNDLER_|PHP_INI|PHPRC|COMPOSER_|LUA_|LUAROCKS_|TCLLIBPATH)/,
  /^(PYTEST_|TOX_|COVERAGE_|HYPOTHESIS_|JEST_|VITEST_|MOCHA_|VSTEST_|CUCUMBER_|RSPEC_|HARNESS_|PROVE_)/,
  /^(TSX_|ESLINT_|HUSKY|LEFTHOOK|PRE_COMMIT_|RAILS_|RACK_|RAKE_|COMPOSER$|JYTHON|BABASHKA_|SPARK_HOME|SPARK_CONF|HADOOP_)/,
  /^(TCL_|GUILE_|SBCL_|NIX_|NIM_|PSMODULE|TEXINPUTS|TEXMF[A-Z]*$)/,
  /^(ERL_|ELIXIR_|MIX_|HEX_|REBAR_|JULIA_|GHC_|GHCRTS|CABAL_|STACK_|OCAML|OPAM)/,
  /^R_(HOME|LIBS|PROFILE|ENVIRON)/,
  /^(JAVA_|_JAVA|JDK_|JVM_|M2_HOME|MAVEN_HOME|MAVEN_CONFIG|GRADLE_HOME|GRADLE_USER_HOME|SBT_|ANT_HOME)/,
  /^(GROOVY_|KOTLIN_|SCALA_|JRUBY_|CLJ_|LEIN_|BAZEL)/,
  /^(DOTNET_|CORECLR_|COR_|COMPLUS_|MSBUILD|NUGET_|MONO_)/,
  /^GO[A-Z0-9]+$/,
  /^(CGO_|CARGO|RUSTC|RUSTDOC|RUSTUP_|RUST_|SWIFT_|ZIG_)/,
  // Git, SSH, TLS, proxies, and tools whose configuration or host comes from the environment.
  /^(GIT_|HGRCPATH|HGEDITOR|HGMERGE|SVN_|CVS_)/,
  /^(SSH_AUTH_SOCK|GNUPGHOME|OPENSSL_|SSLKEYLOGFILE|SSL_CERT_|CURL_HOME|CURL_CA_BUNDLE|WGETRC|NETRC)/,
  /^(HTTP|HTTPS|FTP|ALL|NO|SOCKS)_PROXY$/,
  /^(REQUESTS_CA_BUNDLE|QT_|GTK_|GIO_|GST_|KRB5_)/,
  /^(DOCKER_HOST|DOCKER_CONFIG|DOCKER_CONTEXT|DOCKER_CERT_PATH|DOCKER_TLS|BUILDX_|COMPOSE_)/,
  /^(KUBECONFIG|HELM_|ANSIBLE_|TF_CLI_|TF_PLUGIN_|TF_REATTACH_|TF_DATA_DIR)/,
  /^(AWS_CONFIG_FILE|AWS_SHARED_CREDENTIALS_FILE|AWS_ENDPOINT_URL|AWS_CA_BUNDLE)/,
  /^(PGSERVICEFILE|PGSYSCONFDIR|MYSQL_HOME|MYSQL_TEST_LOGIN_FILE|LIBMYSQL_)/,
  // Debuggers, emulators, libraries of graphics and images.
  /^(GDBINIT|GDB_|LLDB_|DEBUGINFOD_|QEMU_|STRACE_|LIBGL_|MAGICK?$|MAGICK_)/,
]

// Commands fail without the correct values of these.
const taken = new Set(
  `
  PATH HOME USER LOGNAME SHELL PWD OLDPWD TMPDIR TMP TEMP TERM HOSTNAME TZ LANG LANGUAGE LC_ALL LC_CTYPE CI
  XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_CACHE_HOME XDG_DATA_HOME XDG_DATA_DIRS XDG_STATE_HOME
  IFS CDPATH GLOBIGNORE EXECIGNORE FIGNORE UID EUID GID EGID PPID POSIXLY_CORRECT COLUMNS LINES SHLVL _ __PROTO__
  `
    .trim()
    .split(/\s+/),
)
