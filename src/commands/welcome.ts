type Options = { baseUrl: string; sshUrl: string | null; token: string }

/** What the first start says, once: the admin token, and lines to paste. */
export function toWelcome({ baseUrl, sshUrl, token }: Options): string {
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
${sshUrl === null ? '' : toSshLines({ baseUrl, sshUrl, token })}
The API is described at ${baseUrl}/docs

`
}

function toSshLines({ baseUrl, sshUrl, token }: Options): string {
  return `
The same over SSH, with your key (ssh-keygen -t ed25519 makes one):

curl -sS ${baseUrl}/keys -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -d "{\\"name\\":\\"laptop\\",\\"publicKey\\":\\"$(cat ~/.ssh/id_ed25519.pub)\\"}"
git clone ${sshUrl}/hello.git hello-over-ssh
ssh ${sshUrl} help
`
}
