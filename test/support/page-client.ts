export type PageAnswer = { status: number; headers: Headers; text: string; location: string | null }

export type PageClient = ReturnType<typeof createPageClient>

/** Requests pages as a browser without scripts does: with a cookie, without following redirects. */
export function createPageClient(url: string) {
  const cookies = new Map<string, string>()
  const cookie = () => [...cookies].map((pair) => pair.join('=')).join('; ')

  async function request(path: string, init: RequestInit = {}): Promise<PageAnswer> {
    const response = await fetch(url + path, {
      ...init,
      redirect: 'manual',
      headers: {
        ...(cookies.size > 0 && { cookie: cookie() }),
        ...(init.headers as Record<string, string>),
      },
    })
    for (const set of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
      if (value === '') cookies.delete(name)
      else cookies.set(name, value)
    }
    const { status, headers } = response
    return { status, headers, text: await response.text(), location: headers.get('location') }
  }

  /** Sends a form as a page of the service does. */
  function post(
    path: string,
    fields: Record<string, string>,
    headers: Record<string, string> = {},
  ) {
    return request(path, {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: { 'sec-fetch-site': 'same-origin', ...headers },
    })
  }

  return {
    request,
    get: (path: string) => request(path),
    post,
    cookie,
  }
}

/** The same, logged in with a token. */
export async function logIn(url: string, token: string): Promise<PageClient> {
  const client = createPageClient(url)
  const { status, text } = await client.post('/-/login', { token })
  if (status !== 303) throw new Error(`login failed: ${status} ${text}`)
  return client
}
