// The one file that knows what draws the pages.
export {
  html, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState,
} from '../vendor/preact-htm.js';
