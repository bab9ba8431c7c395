import { shortRef } from '#base/short-ref.ts'
import type { CommitSummary } from '#git/objects/commit-object.ts'
import {
  type About,
  type Payload,
  toCommon,
  toIds,
  toIso,
  toPayloadRepository,
  toUser,
  urlOf,
} from './about.ts'
import { toHeadCommit } from './commits.ts'

/** A version of a change; `source` and `target` are full names of refs. */
type ProposedVersion = {
  action: 'opened' | 'synchronize' | 'reopened'
  number: number
  title: string
  description: string
  username: string
  source: string
  target: string
  commit: string
  base: string
  createdAt: number
}

/** The payload of a `pull_request`, for a version of a change. */
export function pullRequestPayload(version: ProposedVersion, about: About): Payload {
  const { action, number, title, description, username, createdAt } = version
  const { owner, ...repository } = toPayloadRepository(about)
  const sideOf = (ref: string, sha: string): Payload => ({
    label: `${String(Object(owner).login)}:${shortRef(ref)}`,
    ref: shortRef(ref),
    sha,
    user: owner ?? null,
    repo: { ...repository, owner: owner ?? null },
  })
  return {
    action,
    number,
    pull_request: {
      ...toIds(`${about.repository.id} change ${number}`),
      number,
      state: 'open',
      locked: false,
      draft: false,
      merged: false,
      title,
      body: description === '' ? null : description,
      user: toUser(username),
      head: sideOf(version.source, version.commit),
      base: sideOf(version.target, version.base),
      created_at: toIso(createdAt),
      url: `${urlOf(about)}/changes/${number}`,
      html_url: `${about.baseUrl}/r/${about.repository.name}/changes/${number}`,
    },
    ...toCommon(about),
  }
}

type MergeGroup = { head: CommitSummary; headRef: string; base: string; baseRef: string }

/** The payload of a `merge_group`, for a commit that the queue tries. */
export function mergeGroupPayload(
  { head, headRef, base, baseRef }: MergeGroup,
  about: About,
): Payload {
  return {
    action: 'checks_requested',
    merge_group: {
      head_sha: head.id,
      head_ref: headRef,
      base_sha: base,
      base_ref: baseRef,
      head_commit: toHeadCommit(head),
    },
    ...toCommon(about),
  }
}
