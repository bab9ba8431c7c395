import { createHash } from 'node:crypto'
import type { Json } from '../workflow-parser/scope.ts'

/** A payload in the shape of GitHub's, as far as it applies here. */
export type Payload = { [key: string]: Json }

/** Whose event it is, and where. */
export type About = {
  repository: {
    id: string
    name: string
    ownerUsername: string
    createdAt: number
    defaultBranch: string
  }
  /** Who made it happen. */
  sender: string
  baseUrl: string
}

/** Where the repository of an event is found. */
export function urlOf({ repository, baseUrl }: About): string {
  return `${baseUrl}/repos/${repository.name}`
}

/** What every payload has. */
export function toCommon(about: About): Payload {
  return { repository: toRepository(about), sender: toUser(about.sender) }
}

/** The repository of an event. */
export function toRepository(about: About): Payload {
  const { id, name, ownerUsername, createdAt, defaultBranch } = about.repository
  const url = urlOf(about)
  return {
    ...toIds(id),
    name,
    full_name: `${ownerUsername}/${name}`,
    private: true,
    visibility: 'private',
    owner: { name: ownerUsername, ...toUser(ownerUsername) },
    description: null,
    fork: false,
    default_branch: defaultBranch,
    created_at: toIso(createdAt),
    url,
    html_url: url,
    clone_url: `${url}.git`,
  }
}

/** A person of whom nothing but the username is known. */
export function toUser(username: string): Payload {
  return { login: username, ...toIds(`user ${username}`), type: 'User', site_admin: false }
}

const idBytes = 6

/**
 * The ids of a thing. GitHub's `id` is a number, and receivers with fixed types take nothing else: ours is made from
 * the id that we have, which is in `node_id`.
 */
export function toIds(id: string): { id: number; node_id: string } {
  const number = createHash('sha256').update(id).digest().readUIntBE(0, idBytes)
  return { id: number, node_id: id }
}

/** A time of ours, in milliseconds, as GitHub writes it. */
export function toIso(milliseconds: number): string {
  return new Date(milliseconds).toISOString()
}
