// Icons as SVG paths on a 24 x 24 grid.
import { html } from '../core/dom.js';

const ICONS = {
  nodes: 'M12 2.8 20 7v10l-8 4.2L4 17V7zM4 7l8 4.3L20 7M12 11.3v9.9',
  publishers: 'M16 20v-1.5a4 4 0 0 0-4-4H7a4 4 0 0 0-4 4V20M9.5 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M21 20v-1.5a4 4 0 0 0-3-3.8M15.5 4.2a3.5 3.5 0 0 1 0 6.6',
  studio: 'M4 5h16v14H4zM4 15.5l4.5-4.5 4 4 2.5-2.5 5 5M15.5 9.2h.01',
  tasks: 'M9 6h11M9 12h11M9 18h11M4.2 6l.9.9 1.6-1.8M4.2 12l.9.9 1.6-1.8M4.2 18l.9.9 1.6-1.8',
  state: 'M3 12h4l2.5-7 5 14L17 12h4',
  audit: 'M12 7v5l3.2 2M3.5 12a8.5 8.5 0 1 0 2.6-6.1M3.5 4v3.5H7',
  moderation: 'M12 3l7.5 2.8v5.4c0 4.6-3.1 8-7.5 9.8-4.4-1.8-7.5-5.2-7.5-9.8V5.8zM9 12l2.2 2.2L15.4 10',
  account: 'M12 13a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M6.2 18.8a6.5 6.5 0 0 1 11.6 0',
  users: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4.5 20a7.5 7.5 0 0 1 15 0',
  budgets: 'M4 20V10M10 20V4M16 20v-7M22 20H2',
  docs: 'M5 4h9.5L19 8.5V20H5zM14 4v5h5M8.5 13h7M8.5 16.5h5',
  search: 'M10.8 17.6a6.8 6.8 0 1 0 0-13.6 6.8 6.8 0 0 0 0 13.6M20 20l-4.4-4.4',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'M4.5 12.5l5 5 10-11',
  download: 'M12 4v11M7.5 11l4.5 4.5 4.5-4.5M5 20h14',
  star: 'M12 3.6l2.6 5.3 5.8.8-4.2 4.1 1 5.8-5.2-2.7-5.2 2.7 1-5.8-4.2-4.1 5.8-.8z',
  out: 'M14 4h6v6M20 4l-9 9M18 14v6H4V6h6',
  close: 'M6 6l12 12M18 6L6 18',
  menu: 'M4 7h16M4 12h16M4 17h16',
  plus: 'M12 5v14M5 12h14',
  sun: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8M12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21M5.6 5.6l1.1 1.1M17.3 17.3l1.1 1.1M18.4 5.6l-1.1 1.1M6.7 17.3l-1.1 1.1',
  moon: 'M20 14.2A8 8 0 0 1 9.8 4 8 8 0 1 0 20 14.2z',
  auto: 'M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16',
  left: 'M14.5 6l-6 6 6 6',
  right: 'M9.5 6l6 6-6 6',
  upload: 'M12 16V5M7.5 9.5L12 5l4.5 4.5M5 20h14',
  warn: 'M12 4l9 16H3zM12 10v4.5M12 17.2h.01',
  refresh: 'M20 11a8 8 0 0 0-14.3-4L4 8.8M4 4.5v4.3h4.3M4 13a8 8 0 0 0 14.3 4l1.7-1.8M20 19.5v-4.3h-4.3',
  music: 'M9 18V6l11-2v12M9 18a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0M20 16a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0',
  video: 'M4 6h11v12H4zM15 10.5l5-3v9l-5-3',
  key: 'M14.5 9.5a4.5 4.5 0 1 1-4.2 2.9L3.5 19v2H7v-2h2v-2h1.6l1.2-1.2M15.5 8.5h.01',
};

export const Icon = ({ name, filled }) => html`
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" fill=${filled ? 'currentColor' : 'none'}
    stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"><path d=${ICONS[name]} /></svg>`;
