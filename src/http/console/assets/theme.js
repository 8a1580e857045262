// Applies the stored theme before the first paint.
{
  const chosen = localStorage.getItem('mediary.theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
}
