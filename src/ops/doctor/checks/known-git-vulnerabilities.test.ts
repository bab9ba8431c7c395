import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  compareGitVersions,
  type GitVersion,
  minGitVersion,
  parseGitVersion,
} from '#git/process/version.ts'
import { knownGitVulnerabilities, vulnerabilitiesOf } from './known-git-vulnerabilities.ts'

const idsOf = (text: string) => {
  const version = parseGitVersion(`git version ${text}`)
  assert.ok(version, text)
  return vulnerabilitiesOf(version).flatMap(({ ids }) => ids)
}

test('a vulnerability is fixed in each series from the listed release, and in all later series', () => {
  const examples = [
    ['CVE-2022-41903', ['2.39.0'], ['2.39.1', '2.40.0', '3.0.0']],
    ['CVE-2023-23946', ['2.39.1'], ['2.39.2', '2.40.0']],
    ['CVE-2023-29007', ['2.39.2', '2.40.0'], ['2.39.3', '2.40.1', '2.41.0']],
    ['CVE-2024-32465', ['2.39.3', '2.42.1', '2.45.0'], ['2.39.4', '2.42.2', '2.45.1', '2.46.0']],
    ['CVE-2024-52006', ['2.39.5', '2.47.1', '2.48.0'], ['2.40.4', '2.47.2', '2.48.1', '2.49.0']],
    ['CVE-2025-48384', ['2.39.5', '2.42.4', '2.50.0'], ['2.43.7', '2.49.1', '2.50.1', '2.56.0']],
  ] as const
  for (const [id, open, fixed] of examples) {
    for (const version of open) assert.ok(idsOf(version).includes(id), `${id} in ${version}`)
    for (const version of fixed) assert.ok(!idsOf(version).includes(id), `${id} in ${version}`)
  }
})

test("a release candidate or a distribution's build counts as its release", () => {
  assert.deepEqual(idsOf('2.51.0.rc1'), [])
  assert.deepEqual(idsOf('2.39.5 (Apple Git-154)'), idsOf('2.39.5'))
  assert.equal(parseGitVersion('git version two'), undefined)
})

test('each vulnerability is listed once, with its releases in order', () => {
  const ids = knownGitVulnerabilities.flatMap((vulnerability) => vulnerability.ids)
  assert.equal(new Set(ids).size, ids.length)
  for (const { fixedIn } of knownGitVulnerabilities) {
    const sorted: GitVersion[] = [minGitVersion, ...fixedIn].sort(compareGitVersions)
    assert.deepEqual(sorted, [minGitVersion, ...fixedIn])
  }
})
