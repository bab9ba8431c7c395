import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hasPreference, prefersType } from './headers.ts'

const prefersJson = (header: string) =>
  prefersType(header, 'application/json', ['text/plain', 'application/octet-stream'])

test('a type that is named, and weighted no less than others, is preferred', () => {
  for (const header of [
    'application/json',
    'Application/JSON; charset=utf-8',
    'application/json, text/plain, */*',
    'text/html, application/json;q=0.9, */*;q=0.8',
    'application/json;q=0.5, text/plain;q=0',
    'text/plain;q=0.1,application/json ; Q=0.2',
    'application/json;q=oops',
  ]) {
    assert.ok(prefersJson(header), header)
  }
})

test('a type that is not named, excluded, or weighted less than another is not preferred', () => {
  for (const header of [
    '',
    '*/*',
    'application/*',
    'application/json;q=0',
    'application/json; q=0.000, */*',
    'text/plain, application/json;q=0.5',
    'application/json;q=0.5, text/*',
    'application/json;q=0.1, */*;q=0.2',
    'application/json-seq',
    'text/plain;x=application/json',
  ]) {
    assert.ok(!prefersJson(header), header)
  }
})

test('a preference is found among others, in any case, with parameters', () => {
  for (const header of [
    'respond-async',
    'Respond-Async',
    'wait=10, respond-async',
    'return=minimal;a="b, c" ,respond-async; x=1',
    'a="\\", respond-async", respond-async',
  ]) {
    assert.ok(hasPreference(header, 'respond-async'), header)
  }
})

test('quoted text, parameters and parts of names are not preferences', () => {
  for (const header of [
    '',
    'wait=10; respond-async',
    'a=", respond-async"',
    'a="\\", respond-async',
    'respond-async-not',
    'respond-async=1',
    'a=", respond-async',
  ]) {
    assert.ok(!hasPreference(header, 'respond-async'), header)
  }
})
