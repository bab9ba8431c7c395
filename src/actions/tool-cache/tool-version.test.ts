import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SetupTool } from '../workflow-parser/setup-actions.ts'
import { toolKinds } from './tool-kinds.ts'
import { newestFirst, toSemanticVersion } from './tool-version.ts'

const printed: [SetupTool, output: string, version: string][] = [
  ['node', 'v22.11.0\n', '22.11.0'],
  ['python', 'Python 3.11.2\n', '3.11.2'],
  ['python', 'Python 3.13.0rc2\n', '3.13.0-rc.2'],
  ['python', 'Python 3.14.0a1+\n', '3.14.0-alpha.1'],
  ['go', 'go version go1.21.5 linux/amd64\n', '1.21.5'],
  ['go', 'go version go1.20 linux/amd64\n', '1.20.0'],
  ['go', 'go version go1.22rc1 linux/amd64\n', '1.22.0-rc.1'],
  ['java', 'openjdk version "17.0.9" 2023-10-17\nOpenJDK Runtime…\n', '17.0.9'],
  ['java', 'openjdk version "21" 2023-09-19\n', '21.0.0'],
  ['java', 'java version "1.8.0_392"\n', '8.0.392'],
  ['java', 'openjdk version "17.0.8.1" 2023-08-24\n', '17.0.8+1'],
  ['java', 'openjdk version "22-ea" 2024-03-19\n', '22.0.0-ea'],
  ['dotnet', '8.0.100\n', '8.0.100'],
  ['ruby', 'ruby 3.1.2p20 (2022-04-12 revision 4491bb740a) [x86_64-linux-gnu]\n', '3.1.2'],
  ['rust', 'rustc 1.75.0 (82e1608df 2023-12-21)\n', '1.75.0'],
  ['rust', 'rustc 1.77.0-nightly (bf3c6c5be 2024-02-01)\n', '1.77.0-nightly'],
  ['pnpm', '9.1.0\n', '9.1.0'],
  ['bun', '1.1.3\n', '1.1.3'],
  ['deno', 'deno 1.40.0 (release, x86_64-unknown-linux-gnu)\nv8 12.0\n', '1.40.0'],
  ['uv', 'uv 0.4.0 (x86_64-unknown-linux-gnu)\n', '0.4.0'],
]

test('the versions that tools print are read', () => {
  for (const [tool, output, version] of printed) {
    const [, text = ''] = toolKinds[tool].versionPattern.exec(output) ?? []
    assert.equal(toSemanticVersion(tool, text), version, output)
  }
})

test('the names of folders in a tool cache are versions', () => {
  const names: [SetupTool, string, string | undefined][] = [
    ['node', '22.11.0', '22.11.0'],
    ['python', '3.13.0-rc.2', '3.13.0-rc.2'],
    ['java', '17.0.9-9', '17.0.9+9'],
    ['java', '17.0.9-9.1', '17.0.9+9.1'],
    ['java', '22.0.0-ea.35', '22.0.0-ea.35'],
    ['node', 'latest', undefined],
    ['node', '22', undefined],
    ['node', `1.2.${'3'.repeat(200)}`, undefined],
    ['java', 'temurin', undefined],
  ]
  for (const [tool, name, version] of names) {
    assert.equal(toSemanticVersion(tool, name), version, name)
  }
})

test('versions are sorted by their numbers', () => {
  assert.deepEqual(newestFirst(['9.0.0', '10.0.0', '10.0.0-rc.1', '17.0.9+9', '17.0.9+10']), [
    ...['17.0.9+10', '17.0.9+9', '10.0.0', '10.0.0-rc.1', '9.0.0'],
  ])
})
