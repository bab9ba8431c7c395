import { createHash } from 'node:crypto'
import type { Visibility } from '#access/visibility.ts'
import type { Json } from '#base/json.ts'
import {
  apiPathOf,
  fullNameOf,
  fullOwnerOf,
  namespaceIn,
  nameWithin,
} from '#base/repository-name.ts'

/** A payload in GitHub's shape, as far as it applies here. */
export type Payload = { [key: string]: Json }

/** The repository and the sender of an event. */
export type About = {
  repository: {
    id: string
    name: string
    ownerUsername: string
    createdAt: number
    visibility: Visibility
    defaultBranch: string
  }
  /** The username of the user who triggered the event. */
  sender: string
  baseUrl: string
}

/** The API address of the repository of an event. */
export function urlOf({ repository, baseUrl }: About): string {
  return baseUrl + apiPathOf(repository.name)
}

/** The properties of every payload. */
export function toCommon(about: About): Payload {
  return { repository: toPayloadRepository(about), sender: toUser(about.sender) }
}

export function toPayloadRepository(about: About): Payload {
  const { id, name, ownerUsername, createdAt, visibility, defaultBranch } = about.repository
  const url = urlOf(about)
  const owner = fullOwnerOf({ name, owner: ownerUsername })
  return {
    ...toIds(id),
    name: nameWithin(name),
    full_name: fullNameOf({ name, owner: ownerUsername }),
    private: visibility !== 'public',
    visibility,
    owner: { name: owner, ...toOwner(about.repository) },
    description: null,
    fork: false,
    default_branch: defaultBranch,
    created_at: toIso(createdAt),
    url,
    html_url: url,
    clone_url: `${about.baseUrl}/repos/${name}.git`,
  }
}

/** A user of whom only the username is known. */
export function toUser(username: string): Payload {
  return { login: username, ...toIds(`user ${username}`), type: 'User', site_admin: false }
}

/** The owner of a repository: its namespace, as an organization, or its user. */
function toOwner({ name, ownerUsername }: About['repository']): Payload {
  const namespace = namespaceIn(name)
  return namespace === undefined ? toUser(ownerUsername) : toOrganization(namespace)
}

/** A namespace, of which only the name is known. */
export function toOrganization(namespace: string): Payload {
  const ids = toIds(`namespace ${namespace}`)
  return { login: namespace, ...ids, type: 'Organization', site_admin: false }
}

const idBytes = 6

/**
 * GitHub's two ids of an object. Its `id` is a number, which typed receivers require, so it is derived from our id;
 * `node_id` is our id.
 */
export function toIds(id: string): { id: number; node_id: string } {
  const number = createHash('sha256').update(id).digest().readUIntBE(0, idBytes)
  return { id: number, node_id: id }
}

/** Formats a time in milliseconds as GitHub does. */
export function toIso(milliseconds: number): string {
  return new Date(milliseconds).toISOString()
}
