// Follows the progress of an import; when it has ended, shows the page anew.
{
  const bar = document.querySelector('progress[data-follow]')
  const follow = () =>
    loadPage(location.href, (page) => {
      setTimeout(follow, 1000)
      if (!page) return
      const fresh = page.querySelector('progress[data-follow]')
      if (!fresh) return location.reload()
      bar.value = fresh.value
      document.querySelector('[data-phase]').textContent = fresh.dataset.follow
      document.querySelector('[data-percent]').textContent = fresh.value
    })
  if (bar) setTimeout(follow, 1000)
}
