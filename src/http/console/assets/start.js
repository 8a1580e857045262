// Runs before the first paint.

// Applies the stored theme.
{
  const chosen = localStorage.getItem('mediary.theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
}

// Starts loading the modules of the page in the URL, which would otherwise be found one after another.
{
  const MODULES = {
    'account': 'core/openapi pages/account parts/budget parts/chart parts/confirm parts/form parts/save parts/token parts/usage',
    'audit': 'core/names core/openapi core/sse pages/audit parts/events parts/more',
    'audit/…': 'core/names pages/history parts/events parts/more',
    'budgets': 'core/names core/openapi pages/budgets parts/budget parts/chart parts/confirm parts/form parts/more parts/save parts/usage',
    'docs': 'core/openapi core/schema pages/docs parts/markdown parts/more vendor/marked',
    'docs/…': 'core/curl core/openapi core/schema core/snippets pages/docs parts/code parts/markdown parts/more parts/request parts/save vendor/marked',
    'moderation': 'core/openapi pages/moderation parts/confirm parts/form parts/markdown parts/more vendor/marked',
    'nodes': 'pages/nodes parts/more',
    'nodes/…': 'core/openapi pages/node parts/archive parts/ban parts/chart parts/confirm parts/delete parts/form parts/markdown parts/publish parts/versions vendor/marked',
    'publishers': 'core/openapi pages/publishers parts/form parts/more',
    'publishers/…': 'core/openapi pages/nodes pages/publisher parts/ban parts/confirm parts/delete parts/delivery parts/form parts/markdown parts/members parts/more parts/token parts/webhooks vendor/marked',
    'state': 'pages/state parts/chart parts/save parts/service_history parts/usage',
    'studio': 'core/job_info core/jobs core/openapi core/own_tasks core/sse pages/studio parts/gallery parts/live parts/more',
    'studio/…': 'core/job_info core/job_state core/job_values core/jobs core/openapi core/own_tasks core/schema core/sse pages/job pages/studio parts/fields parts/form parts/gallery parts/inline parts/job_fields parts/live parts/more parts/picture parts/price',
    'tasks': 'core/jobs core/names core/openapi core/own_tasks core/sse pages/tasks parts/gallery parts/live parts/more',
    'tasks/…': 'core/jobs core/names core/openapi core/own_tasks core/sse pages/task parts/cancel parts/confirm parts/delivery parts/form parts/gallery parts/live parts/media parts/more parts/task_state parts/waveform',
    'users': 'core/openapi pages/users parts/ban parts/confirm parts/form parts/more parts/token',
  };
  const [name = '', id] = /\/[a-z]+$/.test(location.pathname) ? [location.pathname.split('/').pop()] : location.hash.replace(/^#\/?|\?.*$/g, '').split('/');
  const key = [`${name || 'nodes'}${id ? '/…' : ''}`, name].find((key) => Object.hasOwn(MODULES, key));
  for (const module of MODULES[key]?.split(' ') ?? []) {
    document.head.append(Object.assign(document.createElement('link'), { rel: 'modulepreload', href: `console/${module}.js` }));
  }
}
