import assert from 'node:assert/strict'
import { test } from 'node:test'
import { faultOfSecretName, isSecretName } from './secret-names.ts'

test('names of variables are names of secrets', () => {
  const names = [
    'TOKEN',
    'a',
    '_x',
    'npm_token',
    'S3_KEY_2',
    'x'.repeat(100),
    'GITHUB',
    'PATHS',
    'GIT_TOKEN',
  ]
  for (const name of [...names, 'ACTIONS_STEP_DEBUG', 'LD_SDK_KEY', 'constructor', 'toString']) {
    assert.equal(faultOfSecretName(name), undefined, name)
  }
})

test('an invalid name is rejected with the accepted form', () => {
  const texts = ['', '1A', 'A-B', 'A B', 'A.B', 'A\n', 'Ä', 'A\0', 'x'.repeat(101), 'A=B', '../A']
  for (const text of texts) {
    assert.ok(!isSecretName(text))
    assert.match(faultOfSecretName(text) ?? '', /must be 1 to 100 letters/, text)
  }
})

test('variables that steps need are reserved, in any case', () => {
  const names = [
    'PATH',
    'Path',
    'HOME',
    'SVC_TOKEN',
    'GITHUB_TOKEN',
    'github_sha',
    'RUNNER_TEMP',
    'CI',
  ]
  for (const name of [...names, 'LD_PRELOAD', 'BASH_ENV', 'NODE_OPTIONS', '_', '__proto__']) {
    assert.match(faultOfSecretName(name) ?? '', /Choose another name/, name)
    assert.ok(isSecretName(name))
  }
})

test('names of build tools are names of secrets: a step has only those that its file names', () => {
  const names = ['AWK', 'SED', 'TAR', 'NODE', 'CC', 'MAKEFLAGS', 'GOFLAGS', 'TAR_OPTIONS', 'PAGER']
  for (const name of [...names, 'npm_config_script_shell', 'GIT_DIR'])
    assert.equal(faultOfSecretName(name), undefined, name)
})

test('usual names of credentials are accepted', () => {
  const names = `
    API_KEY NPM_TOKEN NODE_AUTH_TOKEN YARN_NPM_AUTH_TOKEN PYPI_TOKEN PYPI_API_TOKEN UV_PUBLISH_TOKEN
    POETRY_PYPI_TOKEN_PYPI_TOKEN CARGO_REGISTRY_TOKEN RUBYGEMS_API_KEY GEM_HOST_API_KEY NUGET_API_KEY COMPOSER_AUTH
    MAVEN_GPG_PASSPHRASE MAVEN_USERNAME MAVEN_CENTRAL_PASSWORD GRADLE_PUBLISH_KEY SONATYPE_PASSWORD
    AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN GOOGLE_APPLICATION_CREDENTIALS GOOGLE_API_KEY
    AZURE_CLIENT_SECRET DOCKER_USERNAME DOCKER_PASSWORD DOCKERHUB_TOKEN GH_TOKEN GIT_TOKEN GIT_PASSWORD
    SSH_PRIVATE_KEY DEPLOY_KEY GPG_PRIVATE_KEY KUBE_CONFIG TF_VAR_password TF_TOKEN_app_terraform_io VAULT_TOKEN
    DATABASE_URL PGPASSWORD PGHOST MYSQL_PWD REDIS_URL SLACK_WEBHOOK_URL VERCEL_DEPLOY_HOOK SENTRY_DSN
    STRIPE_SECRET_KEY TWILIO_ACCOUNT_SID LD_SDK_KEY VITE_API_URL ANSIBLE_VAULT_PASSWORD HELM_PASSWORD
    JAVA_KEYSTORE_PASSWORD CODECOV_TOKEN SONAR_TOKEN RUST_SIGNING_KEY MAKE_API_TOKEN
  `
  for (const name of names.trim().split(/\s+/)) {
    assert.equal(faultOfSecretName(name), undefined, name)
  }
})
