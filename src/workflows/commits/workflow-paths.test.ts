import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Problem } from '#base/problem.ts'
import { toCheckedPaths, toGivenFiles, toWorkflowPaths } from './workflow-paths.ts'

test('names are resolved in the workflows folder, once each', () => {
  assert.deepEqual(toWorkflowPaths(['ci.yml', '.svc/workflows/ci.yml', 'deploy/site.yaml']), [
    '.svc/workflows/ci.yml',
    '.svc/workflows/deploy/site.yaml',
  ])
})

test("files of GitHub's folder can be checked, but not run", () => {
  const file = '.github/workflows/ci.yml'
  assert.deepEqual(toCheckedPaths([file, 'ci.yml']), [file, '.svc/workflows/ci.yml'])
  assert.deepEqual(toGivenFiles([{ path: file, text: '' }]), [{ path: file, text: '' }])
  assert.deepEqual(toWorkflowPaths([file]), [`.svc/workflows/${file}`])
  assert.throws(() => toCheckedPaths(['.github/workflows/../ci.yml']), Problem)
})

test('a path outside the folder, or not of a YAML file, is rejected at its pointer', () => {
  for (const file of [
    '/etc/ci.yml',
    '../ci.yml',
    'a//b.yml',
    'a/./b.yml',
    'a\nb.yml',
    'ci.txt',
    '',
  ])
    assert.throws(
      () => toWorkflowPaths(['ok.yml', file]),
      (error) => error instanceof Problem && error.errors?.[0]?.pointer === '/files/1',
      JSON.stringify(file),
    )
})

test('duplicate files are rejected', () => {
  const contents = [
    { path: 'ci.yml', text: 'a' },
    { path: '.svc/workflows/ci.yml', text: 'b' },
  ]
  assert.throws(() => toGivenFiles(contents), /given twice/)
  assert.deepEqual(toGivenFiles(contents.slice(0, 1)), [
    { path: '.svc/workflows/ci.yml', text: 'a' },
  ])
})
