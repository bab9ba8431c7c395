import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SetupTool } from '../workflow-parser/setup-actions.ts'
import { ltsMajors, selectVersion, VersionError } from './select-version.ts'

const versions: Partial<Record<SetupTool, string[]>> = {
  node: ['18.20.4', '20.9.0', '20.11.1', '22.1.0', '23.4.0', '24.0.0-rc.1'],
  python: ['3.8.18', '3.9.0', '3.9.18', '3.12.1', '3.13.0-rc.2'],
  go: ['1.20.14', '1.21.0', '1.21.5', '1.22.0-rc.1'],
  java: ['8.0.392+8', '17.0.9+9', '17.0.9+9.1', '21.0.1+12', '22.0.0-ea.35'],
  dotnet: ['8.0.100', '8.0.101', '8.0.204', '9.0.100-rc.1'],
  ruby: ['3.1.2', '3.2.2', '3.3.0-preview1'],
  rust: ['1.75.0', '1.76.0', '1.77.0-nightly', '1.77.0-beta.1'],
  bun: ['1.0.0', '1.1.3'],
}

const examples: [SetupTool, spec: string, string | undefined][] = [
  ['node', '20', '20.11.1'],
  ['node', '20.x', '20.11.1'],
  ['node', 'v20.9', '20.9.0'],
  ['node', '20.9.0', '20.9.0'],
  ['node', '=20.9.0', '20.9.0'],
  ['node', '^20.10', '20.11.1'],
  ['node', '>=18 <20', '18.20.4'],
  ['node', '18 || 22', '22.1.0'],
  ['node', '19', undefined],
  ['node', '*', '23.4.0'],
  ['node', '', '23.4.0'],
  ['node', 'latest', '23.4.0'],
  ['node', 'current', '23.4.0'],
  ['node', 'node', '23.4.0'],
  ['node', 'lts/*', '22.1.0'],
  ['node', 'lts/-1', '20.11.1'],
  ['node', 'lts/-9', undefined],
  ['node', 'lts/iron', '20.11.1'],
  ['node', 'lts/Jod', '22.1.0'],
  ['node', 'lts/gallium', undefined],
  ['node', '24', undefined],
  ['node', '24.0.0-rc.1', '24.0.0-rc.1'],
  ['python', '3.x', '3.12.1'],
  ['python', '3', '3.12.1'],
  ['python', '3.9', '3.9.18'],
  ['python', '3.9.0', '3.9.0'],
  ['python', '>=3.9 <3.12', '3.9.18'],
  ['python', '>=3.9,<3.12', '3.9.18'],
  ['python', '>=3.8,!=3.12.*', '3.9.18'],
  ['python', '!=3.12.1', '3.9.18'],
  ['python', '~=3.9', '3.12.1'],
  ['python', '~=3.9.2', '3.9.18'],
  ['python', '==3.9.*', '3.9.18'],
  ['python', '==3.9.0', '3.9.0'],
  ['python', '3.13', undefined],
  ['python', '3.13-dev', '3.13.0-rc.2'],
  ['python', '3.13.0rc2', '3.13.0-rc.2'],
  ['python', '3.13.0-rc.2', '3.13.0-rc.2'],
  ['go', '1.21', '1.21.5'],
  ['go', '1.21.0', '1.21.0'],
  ['go', '^1.20', '1.21.5'],
  ['go', '1.x', '1.21.5'],
  ['go', 'stable', '1.21.5'],
  ['go', 'oldstable', '1.20.14'],
  ['go', '1.22rc1', '1.22.0-rc.1'],
  ['go', '1.22', undefined],
  ['java', '17', '17.0.9+9.1'],
  ['java', '17.0.9+9', '17.0.9+9'],
  ['java', '17.0.9+8', undefined],
  ['java', '8', '8.0.392+8'],
  ['java', '1.8', '8.0.392+8'],
  ['java', '11.0.x', undefined],
  ['java', '22-ea', '22.0.0-ea.35'],
  ['java', '22', undefined],
  ['dotnet', '8', '8.0.204'],
  ['dotnet', '8.0.x', '8.0.204'],
  ['dotnet', '8.0.1xx', '8.0.101'],
  ['dotnet', '8.0.100', '8.0.100'],
  ['ruby', '3.2', '3.2.2'],
  ['ruby', 'ruby-3.1', '3.1.2'],
  ['ruby', 'ruby', '3.2.2'],
  ['rust', 'stable', '1.76.0'],
  ['rust', 'nightly', '1.77.0-nightly'],
  ['rust', 'beta', '1.77.0-beta.1'],
  ['rust', '1.75', '1.75.0'],
  ['bun', 'canary', '1.1.3'],
  ['bun', '1.0.x', '1.0.0'],
  ['bun', 'bun-v1.0.0', '1.0.0'],
]

test('the newest version that fits is selected, as the actions do', () => {
  for (const [tool, spec, expected] of examples) {
    const selected = selectVersion({ tool, spec, versions: versions[tool] ?? [] })
    assert.equal(selected, expected, `${tool} ${spec}`)
  }
})

test('with allowed prereleases, one is selected only where no release fits', () => {
  const select = (spec: string) =>
    selectVersion({
      ...{ tool: 'python', spec, allowsPrereleases: true },
      versions: versions.python ?? [],
    })
  assert.equal(select('3.13'), '3.13.0-rc.2')
  assert.equal(select('3.12'), '3.12.1')
  assert.equal(select('3.x'), '3.12.1')
})

test('a text that is no version is an error', () => {
  const specs: [SetupTool, string][] = [
    ['node', 'lts/nothing'],
    ['node', 'newest'],
    ['python', '3.9, banana'],
    ['rust', 'nightly-2024-01-01'],
    ['go', '1.2.3.4.5'],
    ['node', `>=1 ${'<9 '.repeat(100)}`],
  ]
  for (const [tool, spec] of specs) {
    assert.throws(() => selectVersion({ tool, spec, versions: ['1.0.0'] }), VersionError, spec)
  }
})

test('even majors of Node.js have long-term support from the end of October of their year', () => {
  const all = ['17.0.0', '18.0.0', '20.1.0', '20.2.0', '22.0.0', '23.0.0']
  assert.deepEqual(ltsMajors(all, Date.UTC(2024, 9, 1)), [20, 18])
  assert.deepEqual(ltsMajors(all, Date.UTC(2024, 10, 1)), [22, 20, 18])
})
