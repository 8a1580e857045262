//! The files of the console, as they are in `assets/`.

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_bytes!(concat!("assets/", $name)))),+]
    };
}

/// Names below `assets/`, with what is in them.
pub(super) const FILES: &[(&str, &[u8])] = files![
    "app.js",
    "core/api.js",
    "core/curl.js",
    "core/dom.js",
    "core/format.js",
    "core/load.js",
    "core/music.js",
    "core/openapi.js",
    "core/router.js",
    "core/schema.js",
    "core/session.js",
    "core/sse.js",
    "core/store.js",
    "icon.svg",
    "index.html",
    "pages.css",
    "pages/audit.js",
    "pages/docs.js",
    "pages/moderation.js",
    "pages/node.js",
    "pages/nodes.js",
    "pages/publisher.js",
    "pages/publishers.js",
    "pages/state.js",
    "pages/studio.js",
    "pages/task.js",
    "pages/tasks.js",
    "pages/thing.js",
    "pages/users.js",
    "parts/ban.js",
    "parts/basic.js",
    "parts/cancel.js",
    "parts/confirm.js",
    "parts/events.js",
    "parts/form.js",
    "parts/live.js",
    "parts/login.js",
    "parts/media.js",
    "parts/music.js",
    "parts/picture.js",
    "parts/prose.js",
    "parts/token.js",
    "style.css",
    "theme.js",
    "vendor/LICENSE-htm",
    "vendor/LICENSE-preact",
    "vendor/preact-htm.js",
    "vendor/vendor.lock",
];
