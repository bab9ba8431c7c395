import assert from 'node:assert/strict'
import { test } from 'node:test'
import { elementsOf, elementText, escapeXml } from './xml-elements.ts'

test('elements are found in their order, and one that is not closed is not', () => {
  const xml = '<List><Key>a</Key><Size>1</Size><Key>b</Key><Keys>c</Keys><Key>d'
  assert.deepEqual([...elementsOf(xml, 'Key')], ['a', 'b'])
  assert.deepEqual([...elementsOf(xml, 'Owner')], [])
  assert.equal(elementText(xml, 'Size'), '1')
  assert.equal(elementText(xml, 'Owner'), undefined)
})

test('references to characters are resolved, once', () => {
  assert.equal(
    elementText('<A>&lt;&amp;lt;&#34;&#x41;&apos;&unknown;&#9999999;</A>', 'A'),
    '<&lt;"A\'&unknown;&#9999999;',
  )
  assert.equal(elementText(`<A>${escapeXml('"<&>"')}</A>`, 'A'), '"<&>"')
})
