import type { Migration } from './migration.ts'

// Webhooks and their deliveries. Bodies and attempts are long and have separate tables, so that listing deliveries reads
// short rows. `due_at` of a webhook is never later than that of its deliveries, so that few rows show what is due.
export const webhooksTables: Migration = ({ milliseconds, sequence, bytes }) => [
  `create table webhooks (
    id              text primary key,
    repository_id   text not null references repositories (id) on delete cascade,
    url             text not null,
    events          text not null,
    receiver        text not null,
    created_at      ${milliseconds} not null,
    updated_at      ${milliseconds} not null,
    is_enabled      integer not null default 1,
    failing_since   ${milliseconds},
    disabled_at     ${milliseconds},
    disabled_reason text not null default '',
    last_seq        ${sequence} not null default 0,
    due_at          ${milliseconds},
    deleted_at      ${milliseconds}
  )`,
  'create index webhooks_by_repository on webhooks (repository_id, id)',
  'create index webhooks_due on webhooks (due_at) where due_at is not null',
  'create index webhooks_deleted on webhooks (deleted_at) where deleted_at is not null',
  `create table webhook_secrets (
    id            text primary key,
    webhook_id    text not null references webhooks (id) on delete cascade,
    repository_id text not null,
    sealed_value  ${bytes} not null,
    key_id        text not null,
    created_at    ${milliseconds} not null,
    expires_at    ${milliseconds}
  )`,
  'create index webhook_secrets_by_webhook on webhook_secrets (webhook_id, id)',
  `create table deliveries (
    id              text primary key,
    webhook_id      text not null references webhooks (id) on delete cascade,
    repository_id   text not null,
    event           text not null,
    seq             ${sequence},
    previous_seq    ${sequence},
    url             text not null,
    status          text not null,
    attempts        integer not null default 0,
    created_at      ${milliseconds} not null,
    due_at          ${milliseconds},
    lease_until     ${milliseconds} not null default 0,
    lease_holder    text not null default '',
    is_wanted       integer not null default 0,
    last_attempt_at ${milliseconds},
    completed_at    ${milliseconds},
    response_status integer,
    duration        integer,
    fault           text not null default '',
    unique (webhook_id, seq)
  )`,
  'create index deliveries_listed on deliveries (webhook_id, id)',
  'create index deliveries_listed_by_status on deliveries (webhook_id, status, id)',
  'create index deliveries_listed_by_event on deliveries (webhook_id, event, id)',
  `create index deliveries_due on deliveries (webhook_id, due_at, id) where status = 'pending'`,
  `create table delivery_bodies (
    delivery_id text primary key references deliveries (id) on delete cascade,
    body        text not null
  )`,
  `create table delivery_attempts (
    delivery_id     text not null references deliveries (id) on delete cascade,
    attempt         integer not null,
    is_manual       integer not null,
    started_at      ${milliseconds} not null,
    duration        integer not null,
    url             text not null,
    request_headers text not null,
    response_status integer,
    response_headers text not null,
    response_body   text not null,
    fault           text not null,
    primary key (delivery_id, attempt)
  )`,
  // The transport of a push, and until when the commits that it overwrote are retained under hidden refs.
  `alter table pushes add column door text not null default ''`,
  `alter table pushes add column kept_until ${milliseconds}`,
  // The push that was undone by this one.
  'alter table pushes add column undoes text',
  'create index pushes_finished on pushes (finished_at) where finished_at is not null',
  'create index pushes_kept on pushes (kept_until) where kept_until is not null',
]
