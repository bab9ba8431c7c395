/** A tool of the MCP server: an operation of the API, as an agent calls it. */
export type McpTool = {
  name: string
  title: string
  description: string
  operationId: string
  /** Whether it only reads, adds something, or changes something existing, which a second call leaves unchanged. */
  effect: 'reads' | 'adds' | 'changes'
  /** The arguments for the parameters of the path. */
  pathArguments?: Record<string, { name: string; description: string }>
  /** Parameters of the operation that the tool does not have. */
  omitted?: string[]
  /** Defaults of parameters that differ from those of the operation. */
  defaults?: Record<string, number>
}

const repository = { name: 'repository', description: 'name of the repository' }
const run = { name: 'run', description: 'id of the run' }
const commit = { name: 'commit', description: 'id of the commit, or a branch or tag' }
const wholeCommit = { name: 'commit', description: 'whole id of the commit' }
const change = { name: 'change', description: 'number of the change' }
const comment = { name: 'comment', description: 'id of the comment' }
const cache = { name: 'cache', description: 'id of the cache' }
const push = { name: 'push', description: 'id of the push' }
const namespace = { name: 'namespace', description: 'name of the namespace' }
const webhook = { name: 'webhook', description: 'id of the webhook' }

// Whole lists would fill the context of a model.
const page = { limit: 30 }

/** All tools. Each is an operation, which decides the rights of the caller and validates the arguments. */
export const mcpTools: McpTool[] = [
  {
    name: 'list_repositories',
    title: 'List repositories',
    description: 'Lists the repositories that the token can see, oldest first.',
    operationId: 'listRepositories',
    effect: 'reads',
    defaults: page,
  },
  {
    name: 'get_repository',
    title: 'Get a repository',
    description:
      'Gets a repository: its addresses for git clone over HTTP and SSH, default branch, protected branches, ' +
      'description and the time of the last push.',
    operationId: 'getRepository',
    effect: 'reads',
    pathArguments: { name: repository },
  },
  {
    name: 'create_repository',
    title: 'Create a repository',
    description:
      'Creates an empty repository, which the user of the token owns. Then push to its address with git; the result ' +
      'contains the address.',
    operationId: 'createRepository',
    effect: 'adds',
  },
  {
    name: 'blame',
    title: 'Find the commit of each line',
    description:
      'Finds which commit each line of a file is from, with its author, time and summary, without a clone. Pass start ' +
      'and end for some lines of a long file.',
    operationId: 'getBlame',
    effect: 'reads',
    pathArguments: { name: repository },
  },
  {
    name: 'search_code',
    title: 'Search files',
    description:
      'Searches the files of a commit for a text, never a pattern, without a clone: path, number and text of each ' +
      'line that contains it. isComplete says whether these are all.',
    operationId: 'searchCode',
    effect: 'reads',
    pathArguments: { name: repository },
    defaults: page,
  },
  {
    name: 'check_access',
    title: 'Check whether a push or a request would be allowed',
    description:
      'Reports whether the token may fetch, push to some refs, or send a request about a repository and, if not, which ' +
      'rule forbids it. Use it before a push to a branch that may be protected.',
    operationId: 'checkAccess',
    effect: 'reads',
    pathArguments: { name: repository },
  },
  {
    name: 'list_commits',
    title: 'List commits',
    description:
      'Lists the history of a branch, tag or commit, newest first; with path, author, since or until, the commits that ' +
      'match. Works without a clone.',
    operationId: 'listCommits',
    effect: 'reads',
    pathArguments: { name: repository },
    defaults: page,
  },
  {
    name: 'get_commit',
    title: 'Get a commit',
    description:
      'Gets a commit; with diff true, also what it changed. For a large diff, call again with the path of a file.',
    operationId: 'getCommit',
    effect: 'reads',
    pathArguments: { name: repository, id: commit },
  },
  {
    name: 'compare',
    title: 'Compare two revisions',
    description:
      'Compares two branches, tags or commits: how many commits head is ahead of and behind base, those that only head ' +
      'has, and their diff. For a large diff, call again with the path of a file.',
    operationId: 'compareCommits',
    effect: 'reads',
    pathArguments: { name: repository },
    defaults: { limit: 10 },
  },
  {
    name: 'create_commit',
    title: 'Commit files',
    description:
      'Makes a commit on a branch without a clone: writes, deletes and moves files. Give whole new contents. With ' +
      'expectedHead, refused when the branch has moved since. The result has the id of the push, which can be undone.',
    operationId: 'createCommit',
    effect: 'adds',
    pathArguments: { name: repository },
  },
  {
    name: 'create_merge',
    title: 'Merge into a branch',
    description:
      'Merges a branch, a tag or a commit into a branch without a clone: merge, squash, rebase or fast-forward. A ' +
      'conflict changes nothing, and the error has the files with their conflict markers.',
    operationId: 'createMerge',
    effect: 'adds',
    pathArguments: { name: repository },
  },
  {
    name: 'set_ref',
    title: 'Create or move a branch or tag',
    description:
      'Points a branch, a tag or another ref, given by its full name, at a commit. Moving it so that commits are lost ' +
      'takes force.',
    operationId: 'setRef',
    effect: 'changes',
    pathArguments: { name: repository },
  },
  {
    name: 'delete_ref',
    title: 'Delete a branch or tag',
    description:
      'Deletes a branch, a tag or another ref, given by its full name. The push can be undone: see list_pushes.',
    operationId: 'deleteRef',
    effect: 'changes',
    pathArguments: { name: repository },
  },
  {
    name: 'list_branches',
    title: 'List branches',
    description:
      'Lists the branches of a repository by name: the newest commit of each, and how many commits it is ahead and ' +
      'behind of the default branch, or of base.',
    operationId: 'listBranches',
    effect: 'reads',
    pathArguments: { name: repository },
    defaults: page,
  },
  {
    name: 'list_files',
    title: 'List files',
    description:
      'Lists a folder of a repository at a revision, or all that is below it with recursive: types, sizes, and for ' +
      'one folder the commit that last changed each entry. For more entries, call again with nextCursor as cursor.',
    operationId: 'getTree',
    effect: 'reads',
    pathArguments: { name: repository },
    defaults: { limit: 100 },
  },
  {
    name: 'read_file',
    title: 'Read a file',
    description:
      'Reads a file of a repository at a revision, without a clone. Of a long text, only the end is returned: clone the ' +
      'repository to get all of it.',
    operationId: 'getFile',
    effect: 'reads',
    pathArguments: { name: repository },
  },
  {
    name: 'list_pushes',
    title: 'List pushes',
    description:
      'Lists who changed which refs of a repository, and when, newest first: for each ref the commits before and ' +
      'after. The id of a push is needed to undo it.',
    operationId: 'listPushes',
    effect: 'reads',
    pathArguments: { name: repository },
    defaults: page,
  },
  {
    name: 'undo_push',
    title: 'Undo a push',
    description:
      'Restores all refs that a push changed, or none: it also brings back overwritten commits and deleted branches. ' +
      'Refused when a ref was changed again since. The undo is a push of its own, and can be undone.',
    operationId: 'undoPush',
    effect: 'changes',
    pathArguments: { name: repository, id: push },
  },
  {
    name: 'list_events',
    title: 'List events',
    description:
      'Lists what happened, oldest first: pushes, runs, changes of repositories. With after "latest" and wait, waits ' +
      'for the next event.',
    operationId: 'listEvents',
    effect: 'reads',
    omitted: ['follow'],
    defaults: page,
  },
  {
    name: 'check_workflows',
    title: 'Check workflow files',
    description:
      'Checks workflow files for errors, before they are pushed: pass their text in contents. Without contents, ' +
      'checks those of a branch. Nothing is run.',
    operationId: 'validateWorkflows',
    effect: 'reads',
    pathArguments: { name: repository },
  },
  {
    name: 'start_run',
    title: 'Run workflows',
    description:
      'Runs the workflow files in .svc/workflows/ of a branch, or some of them. A push starts those with "on: push" ' +
      'by itself. Does not wait: call get_run with wait for the result.',
    operationId: 'createRun',
    effect: 'adds',
    pathArguments: { name: repository },
  },
  {
    name: 'list_runs',
    title: 'List runs',
    description: 'Lists the workflow runs of a repository, newest first.',
    operationId: 'listRuns',
    effect: 'reads',
    pathArguments: { name: repository },
    defaults: page,
  },
  {
    name: 'get_run',
    title: 'Get a run',
    description:
      'Gets a workflow run with the result of each step. With wait, first waits that many seconds for it to complete.',
    operationId: 'getRun',
    effect: 'reads',
    pathArguments: { name: repository, id: run },
  },
  {
    name: 'get_run_log',
    title: 'Get the log of a run',
    description:
      'Gets the output of a workflow run, or of one of its steps. Of a long log, it returns the end; pass offset to read from another position.',
    operationId: 'getRunLog',
    effect: 'reads',
    pathArguments: { name: repository, id: run },
    omitted: ['follow', 'states'],
  },
  {
    name: 'cancel_run',
    title: 'Cancel a run',
    description: 'Cancels a workflow run that is queued or running.',
    operationId: 'cancelRun',
    effect: 'changes',
    pathArguments: { name: repository, id: run },
  },
  {
    name: 'rerun_run',
    title: 'Run a run again',
    description:
      'Runs the same files at the same commit again, after the run has completed; with jobs "failed", only what failed.',
    operationId: 'rerunRun',
    effect: 'adds',
    pathArguments: { name: repository, id: run },
  },
  {
    name: 'list_artifacts',
    title: 'List the artifacts of a run',
    description:
      'Lists the files that a workflow run has kept, as archives, with their sizes. svc artifacts get downloads one.',
    operationId: 'listArtifacts',
    effect: 'reads',
    pathArguments: { name: repository, id: run },
  },
  {
    name: 'delete_artifact',
    title: 'Delete an artifact of a run',
    description: 'Deletes an artifact of a workflow run, by its id or name.',
    operationId: 'deleteArtifact',
    effect: 'changes',
    pathArguments: {
      name: repository,
      id: run,
      artifact: { name: 'artifact', description: 'id or name of the artifact' },
    },
  },
  {
    name: 'list_statuses',
    title: 'List the statuses of a commit',
    description:
      'Lists what checks from outside and workflow runs say of a commit, newest first. The first of a context counts.',
    operationId: 'listStatuses',
    effect: 'reads',
    pathArguments: { name: repository, commit: wholeCommit },
  },
  {
    name: 'report_status',
    title: 'Report a status of a commit',
    description:
      'Reports that a check has begun or ended, in place of what the user of the token reported in this context before. A ' +
      'protection of a branch may require it.',
    operationId: 'reportStatus',
    effect: 'changes',
    pathArguments: { name: repository, commit: wholeCommit },
  },
  {
    name: 'list_changes',
    title: 'List changes',
    description:
      'Lists what is proposed for branches of a repository, newest first: of a state (open, landed, abandoned), for ' +
      'a branch, or of a user.',
    operationId: 'listChanges',
    effect: 'reads',
    pathArguments: { name: repository },
    defaults: page,
  },
  {
    name: 'get_change',
    title: 'Get a change',
    description:
      'Gets a change with its versions and verdicts, and with what is missing for landing it. Compare base and ' +
      'commit of a version for its files; git fetches it by its ref.',
    operationId: 'getChange',
    effect: 'reads',
    pathArguments: { name: repository, number: change },
  },
  {
    name: 'propose_change',
    title: 'Propose a change',
    description:
      'Proposes the commits of a branch for another one; pushes to the branch make further versions. Without a ' +
      'branch, propose with git: git push origin HEAD:refs/for/main.',
    operationId: 'openChange',
    effect: 'adds',
    pathArguments: { name: repository },
  },
  {
    name: 'update_change',
    title: 'Edit, abandon or reopen a change',
    description: 'Changes the title or description of a change, abandons it or opens it again.',
    operationId: 'updateChange',
    effect: 'changes',
    pathArguments: { name: repository, number: change },
  },
  {
    name: 'list_change_comments',
    title: 'List the comments on a change',
    description:
      'Lists the comments on a change, oldest first. currentLine is where a line is in the last version.',
    operationId: 'listChangeComments',
    effect: 'reads',
    pathArguments: { name: repository, number: change },
    defaults: page,
  },
  {
    name: 'comment_on_change',
    title: 'Comment on a change',
    description:
      'Comments on a change, on a file of a version, or on a line of it; or replies to another comment.',
    operationId: 'commentOnChange',
    effect: 'adds',
    pathArguments: { name: repository, number: change },
  },
  {
    name: 'update_change_comment',
    title: 'Edit a comment, or resolve its thread',
    description: 'Edits a comment of the user of the token, or resolves or reopens a thread.',
    operationId: 'updateChangeComment',
    effect: 'changes',
    pathArguments: { name: repository, number: change, id: comment },
  },
  {
    name: 'judge_change',
    title: 'Approve a change, or request changes',
    description:
      'Gives the verdict of the user of the token on the last version of a change, or withdraws it. It counts if ' +
      'the user may push and has not proposed the change.',
    operationId: 'judgeChange',
    effect: 'changes',
    pathArguments: { name: repository, number: change },
  },
  {
    name: 'land_change',
    title: 'Land a change',
    description:
      'Lands the last version of a change on its branch. It is a push, which undo_push can undo. If the branch has a ' +
      'queue, it lands later: see list_queue and get_change.',
    operationId: 'landChange',
    effect: 'changes',
    pathArguments: { name: repository, number: change },
  },
  {
    name: 'list_queue',
    title: 'List the changes in the queue',
    description:
      'Lists the changes that wait to land on branches with a queue, and the commits that are tried.',
    operationId: 'listQueue',
    effect: 'reads',
    pathArguments: { name: repository },
  },
  {
    name: 'withdraw_change',
    title: 'Take a change out of the queue',
    description: 'Takes a change out of the queue of its branch. It stays open.',
    operationId: 'withdrawChange',
    effect: 'changes',
    pathArguments: { name: repository, number: change },
  },
  {
    name: 'list_caches',
    title: 'List the caches of workflow runs',
    description:
      'Lists the caches that workflow runs of a repository keep for later runs, oldest first.',
    operationId: 'listCaches',
    effect: 'reads',
    pathArguments: { name: repository },
    defaults: page,
  },
  {
    name: 'delete_cache',
    title: 'Delete a cache of workflow runs',
    description: 'Deletes a cache, by its id. Later runs make it again.',
    operationId: 'deleteCache',
    effect: 'changes',
    pathArguments: { name: repository, id: cache },
  },
  {
    name: 'create_delegated_token',
    title: 'Delegate a token',
    description:
      'Creates a token with a part of the rights of this one, for another agent or program: fewer permissions, ' +
      'repositories, refs and time. It ends with this token. The result contains a secret, which is not shown again.',
    operationId: 'delegateToken',
    effect: 'adds',
  },
  {
    name: 'list_webhooks',
    title: 'List webhooks',
    description: 'Lists the webhooks of a repository with their ids.',
    operationId: 'listWebhooks',
    effect: 'reads',
    pathArguments: { name: repository },
    defaults: page,
  },
  {
    name: 'list_webhook_deliveries',
    title: 'List deliveries of a webhook',
    description:
      'Lists the deliveries of a webhook, newest first, with the status, attempts and the response of the receiver: ' +
      'why a receiver did not get an event.',
    operationId: 'listDeliveries',
    effect: 'reads',
    pathArguments: { name: repository, id: webhook },
    defaults: page,
  },
  {
    name: 'list_namespace_webhooks',
    title: 'List webhooks of a namespace',
    description:
      'Lists the webhooks of a namespace with their ids. They get the events of all of its repositories.',
    operationId: 'listNamespaceWebhooks',
    effect: 'reads',
    pathArguments: { namespace },
    defaults: page,
  },
  {
    name: 'list_namespace_webhook_deliveries',
    title: 'List deliveries of a webhook of a namespace',
    description:
      'Lists the deliveries of a webhook of a namespace, newest first, as list_webhook_deliveries does.',
    operationId: 'listNamespaceDeliveries',
    effect: 'reads',
    pathArguments: { namespace, id: webhook },
    defaults: page,
  },
]

/** The hints for clients that ask their users before some calls: https://modelcontextprotocol.io/specification/, "Tools". */
export function annotationsOf({ title, effect }: McpTool) {
  return {
    title,
    readOnlyHint: effect === 'reads',
    destructiveHint: effect === 'changes',
    // A second call changes nothing more: it is refused.
    idempotentHint: effect !== 'adds',
    openWorldHint: false,
  }
}
