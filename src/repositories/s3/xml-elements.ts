/** The text of the first element with a name and without attributes; undefined when there is none. */
export function elementText(xml: string, name: string): string | undefined {
  const [first] = elementsOf(xml, name)
  return first === undefined ? undefined : unescapeXml(first)
}

/** Yields the content of each element with a name and without attributes, in linear time. */
export function* elementsOf(xml: string, name: string): Generator<string, void, undefined> {
  const [open, close] = [`<${name}>`, `</${name}>`]
  for (let at = xml.indexOf(open); at !== -1; at = xml.indexOf(open, at)) {
    const start = at + open.length
    const end = xml.indexOf(close, start)
    if (end === -1) return
    yield xml.slice(start, end)
    at = end + close.length
  }
}

const entities: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }

function unescapeXml(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]{2,4}));/gi,
    (whole, decimal, hex, name) => {
      if (name !== undefined) return entities[name] ?? whole
      const point = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal)
      return point <= 0x10ffff ? String.fromCodePoint(point) : whole
    },
  )
}

export function escapeXml(text: string): string {
  return text.replace(/[<>&"]/g, (character) => `&#${character.charCodeAt(0)};`)
}
