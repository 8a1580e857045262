// The only module that imports the rendering library.
export {
  html, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState,
} from '../vendor/preact-htm.js';
