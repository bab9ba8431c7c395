import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SetupTool } from '../workflow-parser/setup-actions.ts'
import { versionsInFile } from './tool-requests.ts'

const examples: [SetupTool, path: string, text: string, versions: string[]][] = [
  ['node', '.nvmrc', 'v20.11.0\n', ['v20.11.0']],
  ['node', '.nvmrc', '# the LTS\nlts/iron # until 2026\n', ['lts/iron']],
  ['node', 'app/.node-version', '20\n', ['20']],
  ['node', '.tool-versions', 'python 3.12.1\nnodejs 20.11.0\n', ['20.11.0']],
  ['node', 'package.json', '{ "engines": { "node": ">=18" } }', ['>=18']],
  [
    'node',
    'package.json',
    '{ "engines": { "node": "18" }, "volta": { "node": "20.1.0" } }',
    ['20.1.0'],
  ],
  [
    'node',
    'package.json',
    '{ "devEngines": { "runtime": [{ "name": "bun" }, { "name": "node", "version": "22" }] } }',
    ['22'],
  ],
  ['node', 'package.json', '{ "engines": 3 }', []],
  ['python', '.python-version', '3.12\n# old\n3.11\n', ['3.12', '3.11']],
  [
    'python',
    'pyproject.toml',
    '[project]\nname = "x"\nrequires-python = ">=3.9,<4"\n',
    ['>=3.9,<4'],
  ],
  ['python', 'pyproject.toml', '[tool.poetry.dependencies]\npython = "^3.10"\n', ['^3.10']],
  ['python', 'Pipfile', '[requires]\npython_version = "3.11"\n', ['3.11']],
  ['python', 'pyproject.toml', '[project]\n', []],
  ['go', 'go.mod', 'module x\n\ngo 1.21\n', ['1.21']],
  ['go', 'go.mod', 'module x\n\ngo 1.21.0\n\ntoolchain go1.22.1\n', ['1.22.1']],
  ['go', 'go.work', 'go 1.22.0\n', ['1.22.0']],
  ['go', '.go-version', '1.21.5\n', ['1.21.5']],
  ['java', '.java-version', '17\n', ['17']],
  ['java', '.sdkmanrc', '# sdk\njava=17.0.9-tem\n', ['17.0.9']],
  ['java', '.tool-versions', 'java temurin-17.0.9+9\n', ['17.0.9+9']],
  ['dotnet', 'global.json', '{ "sdk": { "version": "8.0.100" } }', ['8.0.1xx']],
  [
    'dotnet',
    'global.json',
    '{ "sdk": { "version": "8.0.100", "rollForward": "disable" } }',
    ['8.0.100'],
  ],
  [
    'dotnet',
    'global.json',
    '{ "sdk": { "version": "8.0.100", "rollForward": "latestFeature" } }',
    ['8.0.x'],
  ],
  [
    'dotnet',
    'global.json',
    '{ "sdk": { "version": "8.0.100", "rollForward": "latestMinor" } }',
    ['8.x'],
  ],
  [
    'dotnet',
    'global.json',
    '{ "sdk": { "version": "8.0.100", "rollForward": "latestMajor" } }',
    ['>=8.0.100'],
  ],
  ['ruby', '.ruby-version', 'ruby-3.2.2\n', ['ruby-3.2.2']],
  ['ruby', '.tool-versions', 'ruby 3.3.0\n', ['3.3.0']],
  ['pnpm', 'package.json', '{ "packageManager": "pnpm@9.1.0+sha256.abc" }', ['9.1.0']],
  ['pnpm', 'package.json', '{ "packageManager": "yarn@4.0.0" }', []],
  ['bun', 'package.json', '{ "packageManager": "bun@1.1.3" }', ['1.1.3']],
  ['rust', 'rust-toolchain.toml', '[toolchain]\nchannel = "1.75.0"\n', ['1.75.0']],
  ['rust', 'rust-toolchain', 'stable\n', ['stable']],
  ['uv', 'pyproject.toml', '[tool.uv]\nrequired-version = ">=0.4"\n', ['>=0.4']],
]

test('files of projects name versions as the actions read them', () => {
  for (const [tool, path, text, versions] of examples) {
    assert.deepEqual(versionsInFile(tool, path, text), versions, `${tool} ${path}\n${text}`)
  }
})

test('a file that is not JSON is an error', () => {
  assert.throws(() => versionsInFile('node', 'package.json', '{'), /not valid JSON/)
})
