/** Encodes a text character by character. */
export type Encoding = (text: string) => string

const percent: Encoding = encodeURIComponent
/** All but the unreserved characters of RFC 3986, as curl and jq do. */
const strictPercent: Encoding = (text) =>
  percent(text).replaceAll(/[!'()*]/g, (character) => `%${hexOf(character, 2).toUpperCase()}`)
/** As Python's `quote` does. */
const pathPercent: Encoding = (text) => strictPercent(text).replaceAll('%2F', '/')
/** `application/x-www-form-urlencoded`, by the URL standard. */
const form: Encoding = (text) => new URLSearchParams({ v: text }).toString().slice(2)

const percents: Encoding[] = [percent, strictPercent, pathPercent].flatMap((encode) => [
  encode,
  (text: string) => encode(text).replaceAll('%20', '+'),
])

const json: Encoding = (text) => JSON.stringify(text).slice(1, -1)
const slashedJson: Encoding = (text) => json(text).replaceAll('/', '\\/')
/** As Python does. */
const asciiJson: Encoding = (text) => json(text).replaceAll(/[^ -~]/g, unicodeEscape)
/** As PHP does. */
const asciiSlashedJson: Encoding = (text) => slashedJson(text).replaceAll(/[^ -~]/g, unicodeEscape)
/** As Go does. */
const htmlJson: Encoding = (text) => json(text).replaceAll(/[<>&\u2028\u2029]/g, unicodeEscape)
/** As .NET does. */
const cautiousJson: Encoding = (text) =>
  json(text)
    .replaceAll('\\"', '\\u0022')
    .replaceAll(/[^ -~]|[&'+<>`]/g, (character) => `\\u${hexOf(character, 4).toUpperCase()}`)

const quotations: Encoding[] = [
  (text) => text.replaceAll("'", "'\\''"),
  (text) => text.replaceAll("'", `'"'"'`),
  // In double quotes, as `declare -p` of Bash writes it.
  (text) => text.replaceAll(/["$`\\]/g, '\\$&'),
  // `printf %q`.
  (text) => text.replaceAll(/[\t !"$&'()*,;<>?[\\\]^`{|}]/g, '\\$&'),
  // Texts of workflow expressions, YAML and SQL.
  (text) => text.replaceAll("'", "''"),
  // `$'…'` of Bash, and texts of Python and JavaScript in each kind of quotation marks.
  (text) => escapeControls(text.replaceAll('\\', '\\\\')).replaceAll("'", "\\'"),
  (text) => escapeControls(text.replaceAll('\\', '\\\\')),
  (text) => escapeControls(text.replaceAll(/["$`\\]/g, '\\$&')),
]

/** How programs escape quotation marks in HTML and XML; all escape `&`, `<` and `>` alike. */
const markupQuotes: Readonly<Record<string, string>>[] = [
  {},
  { '"': '&quot;' },
  { '"': '&quot;', "'": '&#39;' },
  { '"': '&quot;', "'": '&#x27;' },
  { '"': '&quot;', "'": '&#039;' },
  { '"': '&quot;', "'": '&apos;' },
  { '"': '&#34;', "'": '&#39;' },
  // Handlebars and Mustache.
  { '"': '&quot;', "'": '&#x27;', '`': '&#x60;', '=': '&#x3D;' },
  { '"': '&quot;', "'": '&#39;', '`': '&#x60;', '=': '&#x3D;', '/': '&#x2F;' },
]

const markups: Encoding[] = markupQuotes.map((quotes) => {
  const entities = new Map(Object.entries({ '&': '&amp;', '<': '&lt;', '>': '&gt;', ...quotes }))
  return (text) =>
    text.replaceAll(/[&<>"'`=/]/g, (character) => entities.get(character) ?? character)
})

/** The identity, and common encodings. */
const encodings: Encoding[] = [
  (text) => text,
  ...[...percents, form].flatMap((encode) => [
    encode,
    (text: string) => encode(text).replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
  ]),
  json,
  slashedJson,
  asciiJson,
  asciiSlashedJson,
  htmlJson,
  cautiousJson,
  (text) => json(json(text)),
  ...quotations,
  ...markups,
]

/** The encodings that produce distinct results for a text. */
export function encodingsOf(text: string): Encoding[] {
  // Encodings work per character, so comparing the distinct characters suffices.
  const characters = [...new Set(text)].join('')
  return [...new Map(encodings.map((encode) => [encode(characters), encode])).values()]
}

function escapeControls(text: string): string {
  return text.replaceAll('\n', '\\n').replaceAll('\r', '\\r').replaceAll('\t', '\\t')
}

function unicodeEscape(character: string): string {
  return `\\u${hexOf(character, 4)}`
}

function hexOf(character: string, digits: number): string {
  return character.charCodeAt(0).toString(16).padStart(digits, '0')
}

/** Breaks an encoded text into lines of `width` characters. */
export function wrap(encoded: string, width: number): string {
  const lines: string[] = []
  for (let start = 0; start < encoded.length; start += width) {
    lines.push(encoded.slice(start, start + width))
  }
  return lines.join('\n')
}

/** The line lengths of `base64` and `openssl`. */
const widths = [76, 64]

/**
 * The base64 encodings in which a text of `byteLength` bytes can appear: at each of the three offsets in a group, only
 * the characters that encode nothing else, and at its end with and without padding; in both alphabets; and in lines.
 */
export function base64Encodings(byteLength: number): Encoding[] {
  const whole = [0, 1, 2].flatMap((before) =>
    tailsOf(before + byteLength).map((cut) => (text: string) => encode(text, { before, cut })),
  )
  // `echo` adds a line break, which shares a group with the last bytes.
  const echoed = (text: string) => encode(`${text}\n`, { before: 0, cut: 0 })
  const fromStart = [
    echoed,
    ...tailsOf(byteLength).map((cut) => (text: string) => encode(text, { before: 0, cut })),
  ]
  return [
    ...whole,
    ...whole.map((toBase64) => (text: string) => toUrlAlphabet(toBase64(text))),
    echoed,
    ...widths
      .filter((width) => (byteLength * 4) / 3 > width)
      .flatMap((width) =>
        fromStart.map((toBase64) => (text: string) => wrap(toBase64(text), width)),
      ),
  ]
}

/** The numbers of characters to cut at the end: padding, and the last character, which depends on the next byte. */
function tailsOf(byteLength: number): number[] {
  const rest = byteLength % 3
  if (rest === 0) return [0]
  return rest === 1 ? [0, 2, 3] : [0, 1, 2]
}

/** Encodes a text after `before` bytes in its first group, without the characters that encode some of those. */
function encode(text: string, { before, cut }: { before: number; cut: number }): string {
  const encoded = Buffer.concat([Buffer.alloc(before), Buffer.from(text)]).toString('base64')
  const skipped = before === 0 ? 0 : before + 1
  return encoded.slice(skipped, encoded.length - cut)
}

function toUrlAlphabet(base64: string): string {
  return base64.replaceAll('+', '-').replaceAll('/', '_')
}
