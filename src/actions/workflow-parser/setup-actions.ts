/** The tools that a runner can provide to steps. */
export type SetupTool = (typeof setupActions)[SetupActionName]['tool']

export type SetupActionName = keyof typeof setupActions

/** An action that installs a tool on GitHub. Here the runner provides the tool. The names of inputs are in lower case. */
export type SetupAction = {
  tool: string
  /** The input with the version, and the one with the path of a file that names it. */
  versionInput: string
  fileInput?: string
  /** Other inputs with an effect. */
  inputs: readonly string[]
  required?: readonly string[]
  /** Inputs that only matter for downloads, or to what has no effect here anyway. */
  harmless: readonly string[]
  /** Inputs without effect on which later steps may rely, with the note for the log. */
  noted: Readonly<Record<string, string>>
}

const noCache = 'this step caches nothing; use actions/cache'
const installedOnly = 'only what is installed on the runner is available'
const useScript = 'it has no effect here; do it in a "run" step'

const downloads = ['check-latest', 'token', 'cache-dependency-path']
const rustInputs = { components: installedOnly, targets: installedOnly, target: installedOnly }

export const setupActions = {
  'actions/setup-node': {
    tool: 'node',
    versionInput: 'node-version',
    fileInput: 'node-version-file',
    inputs: ['architecture', 'registry-url', 'scope', 'always-auth'],
    harmless: [...downloads, 'mirror', 'mirror-token', 'package-manager-cache'],
    noted: { cache: noCache },
  },
  'actions/setup-python': {
    tool: 'python',
    versionInput: 'python-version',
    fileInput: 'python-version-file',
    inputs: [
      'architecture',
      'update-environment',
      'allow-prereleases',
      'freethreaded',
      'pip-install',
    ],
    harmless: [...downloads, 'pip-version'],
    noted: { cache: noCache },
  },
  'actions/setup-go': {
    tool: 'go',
    versionInput: 'go-version',
    fileInput: 'go-version-file',
    inputs: ['architecture'],
    harmless: [...downloads, 'go-download-base-url'],
    noted: { cache: noCache },
  },
  'actions/setup-java': {
    tool: 'java',
    versionInput: 'java-version',
    fileInput: 'java-version-file',
    inputs: ['architecture', 'distribution', 'java-package'],
    required: ['distribution'],
    harmless: [
      ...[...downloads, 'job-status', 'jdkfile', 'mvn-toolchain-id', 'mvn-toolchain-vendor'],
      ...['server-username', 'server-password', 'settings-path', 'overwrite-settings'],
      'gpg-passphrase',
    ],
    noted: {
      cache: noCache,
      'server-id': 'no settings.xml is written; write it in a "run" step',
      'gpg-private-key': useScript,
    },
  },
  'actions/setup-dotnet': {
    tool: 'dotnet',
    versionInput: 'dotnet-version',
    fileInput: 'global-json-file',
    inputs: ['architecture'],
    harmless: [...downloads, 'dotnet-quality', 'owner'],
    noted: {
      cache: noCache,
      'source-url': useScript,
      'config-file': useScript,
      workloads: useScript,
    },
  },
  'ruby/setup-ruby': {
    tool: 'ruby',
    versionInput: 'ruby-version',
    inputs: ['bundler-cache', 'working-directory'],
    harmless: [
      ...['rubygems', 'bundler', 'cache-version', 'self-hosted', 'windows-toolchain', 'token'],
    ],
    noted: {},
  },
  'pnpm/action-setup': {
    tool: 'pnpm',
    versionInput: 'version',
    fileInput: 'package_json_file',
    inputs: ['run_install'],
    harmless: ['dest', 'standalone', 'cache_dependency_path'],
    noted: { cache: noCache },
  },
  'dtolnay/rust-toolchain': {
    tool: 'rust',
    versionInput: 'toolchain',
    inputs: [],
    harmless: [],
    noted: rustInputs,
  },
  'actions-rs/toolchain': {
    tool: 'rust',
    versionInput: 'toolchain',
    inputs: [],
    harmless: ['default', 'override', 'profile'],
    noted: rustInputs,
  },
  'oven-sh/setup-bun': {
    tool: 'bun',
    versionInput: 'bun-version',
    fileInput: 'bun-version-file',
    inputs: [],
    harmless: ['no-cache', 'token', 'bun-download-url'],
    noted: { 'registry-url': useScript, scope: useScript, registries: useScript },
  },
  'denoland/setup-deno': {
    tool: 'deno',
    versionInput: 'deno-version',
    fileInput: 'deno-version-file',
    inputs: [],
    harmless: ['cache-hash'],
    noted: { cache: noCache, 'deno-binary-name': useScript },
  },
  'astral-sh/setup-uv': {
    tool: 'uv',
    versionInput: 'version',
    fileInput: 'version-file',
    inputs: ['python-version'],
    harmless: [
      ...['checksum', 'github-token', 'cache-local-path', 'cache-dependency-glob', 'cache-suffix'],
      ...['prune-cache', 'cache-python', 'save-cache', 'restore-cache', 'ignore-nothing-to-cache'],
      ...['ignore-empty-workdir', 'add-problem-matchers', 'server-url', 'resolution-strategy'],
      ...['manifest-file', 'working-directory', 'tool-dir', 'tool-bin-dir'],
    ],
    noted: { 'enable-cache': noCache, 'activate-environment': useScript },
  },
} as const satisfies Record<string, SetupAction>

/** All inputs that an action accepts. */
export function inputsOf({ versionInput, fileInput, inputs, harmless, noted }: SetupAction) {
  const version = fileInput === undefined ? [versionInput] : [versionInput, fileInput]
  return [...version, ...inputs, ...Object.keys(noted), ...harmless]
}
