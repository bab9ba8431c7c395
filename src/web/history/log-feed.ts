import { shownName } from '../display-text.ts'
import type { PageTarget } from '../links.ts'
import { RawResponse, type SharedContext } from '../page.ts'
import { escapeHtml } from '../render/html.ts'
import { splitMessage } from './commit-parts.ts'

const entries = 50

/** The newest commits as an Atom feed: RFC 4287. */
export async function commitFeed(
  { read, params, to, baseUrl }: SharedContext,
  { rev }: PageTarget,
): Promise<RawResponse> {
  const name = params.name ?? ''
  const commits = await read('listCommits', { query: { rev, limit: entries } })
  const origin = new URL(baseUrl).origin
  const log = toXml(origin + to.log(name, rev))
  const updated = toTime(Math.max(0, ...commits.map(({ committer }) => committer.at)))
  const items = commits.map(({ id, message, author, committer }) => {
    const { subject, body } = splitMessage(message)
    const href = toXml(origin + to.commit(name, id))
    return `<entry>
<id>${href}</id>
<title>${toXml(subject)}</title>
<link href="${href}"/>
<updated>${toTime(committer.at)}</updated>
<author><name>${toXml(shownName(author))}</name></author>
<content type="text">${toXml(body)}</content>
</entry>
`
  })
  const feed = `<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
<id>${log}</id>
<title>${toXml(`Commits of ${rev} in ${name}`)}</title>
<link href="${log}"/>
<link rel="self" href="${toXml(origin + to.feed(name, rev))}"/>
<updated>${updated}</updated>
${items.join('')}</feed>
`
  return new RawResponse('application/atom+xml; charset=utf-8', feed)
}

function toTime(at: number): string {
  return new Date(Math.max(0, Math.min(253_402_300_799_000, at))).toISOString()
}

/** XML has no control characters other than white space, not even escaped ones. */
function toXml(text: string): string {
  return escapeHtml(
    text.toWellFormed().replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd'),
  )
}
