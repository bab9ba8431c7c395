type Options = { baseUrl: string; token: string }

/** What the first start says, once: the admin token, and lines to paste. */
export function toWelcome({ baseUrl, token }: Options): string {
  const url = new URL(baseUrl)
  const withToken = `${url.protocol}//git:${token}@${url.host}${url.pathname.replace(/\/$/, '')}`
  return `
svc is running at ${baseUrl}

Your admin token, shown only this once:

    ${token}

Try it from inside any Git project: create a repository, push to it, clone it back.

curl -sS ${baseUrl}/repos -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -d '{"name":"hello"}'
git push ${withToken}/repos/hello.git HEAD:main
git clone ${withToken}/repos/hello.git hello-again

The API is described at ${baseUrl}/docs

`
}
