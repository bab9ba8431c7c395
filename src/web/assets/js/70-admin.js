// Follows the progress of an import; when it has ended, shows the page anew.
{
  const bar = document.querySelector('progress[data-follow]')
  const follow = async () => {
    const page = await fetch(location.href).then(
      (response) => response.text(),
      () => undefined,
    )
    setTimeout(follow, 1000)
    if (page === undefined) return
    const [, value, phase] =
      /<progress max="100" value="(\d+)" data-follow="([^"]*)"/.exec(page) ?? []
    if (phase === undefined) return location.reload()
    bar.value = value
    document.querySelector('[data-phase]').textContent = phase
    document.querySelector('[data-percent]').textContent = value
  }
  if (bar) setTimeout(follow, 1000)
}
