import type { Json } from '../workflow-syntax/scope.ts'

/** What is `github.event` to a run, in the shape of GitHub's payloads, as far as it applies here. */
type Payload = { [key: string]: Json }

/** What a commit says of itself. */
export type CommitHead = { id: string; message: string; author: Person; committer: Person }
type Person = { name: string; email: string; at: string }

/** Whose event it is, and where. */
type About = {
  repository: { id: string; name: string; ownerUsername: string; defaultBranch: string }
  /** Who made it happen. */
  sender: string
  baseUrl: string
}

/** Of a push; all zeros before or after it mean that there was no such ref. */
export function pushPayload(
  { ref, before, after }: { ref: string; before: string; after: string },
  head: CommitHead | undefined,
  about: About,
): Payload {
  const url = urlOf(about)
  const commit = head ? toCommit(head, url) : null
  return {
    ref,
    before,
    after,
    created: /^0+$/.test(before),
    deleted: false,
    forced: false,
    compare: `${url}/compare/${before}...${after}`,
    commits: commit === null ? [] : [commit],
    head_commit: commit,
    pusher: { name: about.sender },
    ...common(about),
  }
}

/** Of a dispatch; its inputs are texts, as on GitHub, where `inputs` alone has them by their types. */
export function dispatchPayload(
  ref: string,
  inputs: Record<string, string | number | boolean>,
  about: About,
): Payload {
  const texts = Object.entries(inputs).map(([name, value]) => [name, String(value)])
  return { ref, inputs: Object.fromEntries(texts), workflow: null, ...common(about) }
}

/** Of a time of `on.schedule`. */
export function schedulePayload(schedule: string, about: About): Payload {
  return { schedule, ...common(about) }
}

function common(about: About): Payload {
  const { id, name, ownerUsername, defaultBranch } = about.repository
  const url = urlOf(about)
  return {
    repository: {
      id,
      name,
      full_name: `${ownerUsername}/${name}`,
      owner: { name: ownerUsername, login: ownerUsername },
      default_branch: defaultBranch,
      clone_url: `${url}.git`,
      url,
    },
    sender: { login: about.sender },
  }
}

function toCommit({ id, message, author, committer }: CommitHead, repositoryUrl: string): Json {
  return {
    id,
    message,
    timestamp: committer.at,
    url: `${repositoryUrl}/commit/${id}`,
    author: { name: author.name, email: author.email },
    committer: { name: committer.name, email: committer.email },
  }
}

function urlOf({ repository, baseUrl }: About): string {
  return `${baseUrl}/repos/${repository.name}`
}
