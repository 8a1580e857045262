// Before anything is painted: the appearance that was chosen here, if one was.
{
  const chosen = localStorage.getItem('mediary.theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
}
