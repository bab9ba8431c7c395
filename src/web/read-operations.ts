import type { Static, TSchema } from 'typebox'
import type { AccessCheck } from '#api/access-check/check-routes.ts'
import type { LoggedEvent } from '#api/event-log/event-routes.ts'
import type { RepositoryActivity } from '#browse/activity-routes.ts'
import type { Blame } from '#browse/blame/blame.ts'
import type { Commit, CommitDetails } from '#browse/commit-schemas.ts'
import type { File } from '#browse/files/file-routes.ts'
import type { Tree } from '#browse/folders/tree-routes.ts'
import type { ComparedCommits } from '#browse/history/compare-routes.ts'
import type { Branch, Tag } from '#browse/refs/ref-routes.ts'
import type { SearchResult } from '#browse/search/search.ts'
import type {
  ChangeDetailsSchema,
  ChangeSchema,
  VersionDiffSchema,
  WaitingChangeSchema,
} from '#changes/change-schemas.ts'
import type { CommentSchema } from '#changes/review-schemas.ts'
import type { AuditEntrySchema } from '#events/audit/audit-routes.ts'
import type { Push } from '#git-server/pushes/push-routes.ts'
import type { SshKey } from '#identity/ssh-keys/ssh-key-routes.ts'
import type { Token } from '#identity/tokens/token-routes.ts'
import type { TrustRule } from '#identity/trust-rules/trust-rule-routes.ts'
import type { User } from '#identity/users/user-routes.ts'
import type { DeletedRepository } from '#repositories/deleted-repository-routes.ts'
import type {
  NamespaceMemberReply,
  NamespaceReply,
} from '#repositories/namespaces/namespace-routes.ts'
import type { NamespaceUsageReply } from '#repositories/namespaces/namespace-usage-routes.ts'
import type { DescribedRepository, Repository } from '#repositories/repository-schemas.ts'
import type { CollaboratorList } from '#repositories/rights/collaborator-routes.ts'
import type { Branches, Tags } from '#repositories/rights/protection-routes.ts'
import type { NamespaceSecret, Secret } from '#secrets/secret-routes.ts'
import type {
  Delivery,
  NamespaceDelivery,
  NamespaceWebhook,
  Webhook,
  WholeDelivery,
  WholeNamespaceDelivery,
} from '#webhooks/management/webhook-schemas.ts'
import type { Artifact, Cache, RunFileUsage } from '#workflows/run-files/run-file-schemas.ts'
import type { WorkflowValidation } from '#workflows/runs/workflow-file-routes.ts'
import type { CombinedStatusSchema, CommitStatusSchema } from '#workflows/statuses/status-routes.ts'
import type { CommitAnnotation, ListedRun, Run } from '#workflows/views/run-schemas.ts'

/** The operations that pages read, and the types of their values. */
export type OperationValues = {
  checkAccess: Static<typeof AccessCheck>
  compareChangeVersions: Static<typeof VersionDiffSchema>
  compareCommits: Static<typeof ComparedCommits>
  getArchive: unknown
  getArtifact: unknown
  getBlame: Static<typeof Blame>
  getChange: Static<typeof ChangeDetailsSchema>
  getCommit: Static<typeof CommitDetails>
  getDelivery: Static<typeof WholeDelivery>
  getFile: Static<typeof File>
  getPush: Static<typeof Push>
  getRepository: Static<typeof DescribedRepository>
  getRun: Static<typeof Run>
  getRunFileUsage: Static<typeof RunFileUsage>
  getRunLog: unknown
  getTree: Static<typeof Tree>
  getWebhook: Static<typeof Webhook>
  listArtifacts: List<typeof Artifact>
  listCaches: List<typeof Cache>
  listActivity: List<typeof RepositoryActivity>
  listAnnotations: List<typeof CommitAnnotation>
  listStatuses: List<typeof CommitStatusSchema>
  listCombinedStatuses: List<typeof CombinedStatusSchema>
  listAuditEntries: List<typeof AuditEntrySchema>
  listBranchProtections: Static<typeof Branches>
  listBranches: List<typeof Branch>
  listChangeComments: List<typeof CommentSchema>
  listChanges: List<typeof ChangeSchema>
  listCollaborators: Static<typeof CollaboratorList>
  listCommits: List<typeof Commit>
  listDelegatedTokens: List<typeof Token>
  listDeletedRepositories: List<typeof DeletedRepository>
  listDeliveries: List<typeof Delivery>
  getNamespace: Static<typeof NamespaceReply>
  getNamespaceUsage: Static<typeof NamespaceUsageReply>
  listNamespaces: List<typeof NamespaceReply>
  listNamespaceMembers: List<typeof NamespaceMemberReply>
  listNamespaceBranchProtections: Static<typeof Branches>
  listNamespaceTagProtections: Static<typeof Tags>
  listNamespaceSecrets: List<typeof NamespaceSecret>
  getNamespaceDelivery: Static<typeof WholeNamespaceDelivery>
  getNamespaceWebhook: Static<typeof NamespaceWebhook>
  listNamespaceDeliveries: List<typeof NamespaceDelivery>
  listNamespaceWebhooks: List<typeof NamespaceWebhook>
  listEvents: List<typeof LoggedEvent>
  listPushes: List<typeof Push>
  listRepositories: List<typeof Repository>
  listRuns: List<typeof ListedRun>
  listSecrets: List<typeof Secret>
  listSshKeys: List<typeof SshKey>
  listTagProtections: Static<typeof Tags>
  listTags: List<typeof Tag>
  listTokens: List<typeof Token>
  listTrustRules: List<typeof TrustRule>
  listWaitingChanges: List<typeof WaitingChangeSchema>
  listUsers: List<typeof User>
  listWebhooks: List<typeof Webhook>
  searchCode: Static<typeof SearchResult>
  validateWorkflows: Static<typeof WorkflowValidation>
}

type List<T extends TSchema> = Static<T>[]

export type ReadOperation = keyof OperationValues
