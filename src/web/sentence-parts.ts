import type { EventData } from '#events/events.ts'
import type { IconName } from './icons.ts'

/** Text, or a name in it, which may lead to its page. */
export type SentencePart = string | { text: string; href?: string }

/** An event in words, with the icon and the tone that go with it. */
export type EventSentence = {
  icon: IconName
  tone: '' | 'good' | 'bad' | 'busy'
  parts: SentencePart[]
}

/** Says what an event of a kind is. */
export type Describe<K extends keyof EventData> = (
  data: EventData[K],
  about: { who: SentencePart; repository: SentencePart; of: (path: string) => string | undefined },
) => { icon: IconName; tone?: EventSentence['tone']; parts: SentencePart[] }

/** A name that may lead to its page. */
export function link(text: string, href: string | undefined): SentencePart {
  return href === undefined ? { text } : { text, href }
}
