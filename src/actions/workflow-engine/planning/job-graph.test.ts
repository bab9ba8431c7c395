import assert from 'node:assert/strict'
import { test } from 'node:test'
import { combineResults, concludeRun, createJobGraph, resultOf } from './job-graph.ts'

const chain = [
  { id: 'a', needs: [] },
  { id: 'b', needs: ['a'] },
  { id: 'c', needs: ['b'] },
  { id: 'd', needs: [] },
]

test('a job is ready when all its needs have ended', () => {
  const graph = createJobGraph([...chain, { id: 'e', needs: ['a', 'd'] }])
  assert.deepEqual(graph.ready(), ['a', 'd'])
  graph.begin('a')
  graph.begin('d')
  graph.end('d', 'success')
  assert.deepEqual(graph.ready(), [])
  graph.end('a', 'failure')
  assert.deepEqual(graph.ready(), ['b', 'e'])
})

test('after a failed job, failure() is true for all dependent jobs and success() for none', () => {
  const graph = createJobGraph(chain)
  graph.end('a', 'failure')
  graph.end('b', 'skipped')
  assert.deepEqual(graph.statusOf('c', false), { success: false, failure: true, cancelled: false })
  assert.deepEqual(graph.statusOf('d', false), { success: true, failure: false, cancelled: false })
})

test('a skip applies to all dependent jobs, even if one in between ran', () => {
  const graph = createJobGraph(chain)
  graph.end('a', 'skipped')
  graph.end('b', 'success')
  assert.deepEqual(graph.statusOf('c', false), { success: false, failure: false, cancelled: false })
})

test('in a cancelled run only cancelled() is true', () => {
  const graph = createJobGraph(chain)
  graph.end('a', 'failure')
  assert.deepEqual(graph.statusOf('b', true), { success: false, failure: false, cancelled: true })
})

test('a failure with continue-on-error is a success for dependent jobs', () => {
  assert.equal(resultOf('failure', true), 'success')
  assert.equal(resultOf('timed_out', true), 'success')
  assert.equal(resultOf('timed_out', false), 'failure')
  assert.equal(resultOf('cancelled', true), 'cancelled')
})

test('one failed job of a matrix makes it fail, and cancelled ones beside it do not hide that', () => {
  assert.equal(combineResults(['success', 'cancelled', 'failure']), 'failure')
  assert.equal(combineResults(['success', 'cancelled']), 'cancelled')
  assert.equal(combineResults(['skipped', 'skipped']), 'skipped')
  assert.equal(combineResults(['skipped', 'success']), 'success')
})

test('a run is timed out if a job was, else failed if one did', () => {
  assert.equal(concludeRun(['success', 'failure', 'timed_out']), 'timed_out')
  assert.equal(concludeRun(['success', 'cancelled', 'failure']), 'failure')
  assert.equal(concludeRun(['success', 'skipped']), 'success')
  assert.equal(concludeRun(['skipped']), 'success')
})
