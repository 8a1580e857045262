#!/usr/bin/env python3
"""Plays videos of a running service in headless Chromium and prints size, length and dropped frames of each.

    benches/video/play.py URL...

Needs Playwright (tests/browser/requirements.txt) and Chromium, by its path in BROWSER_EXECUTABLE or as /usr/bin/chromium.
"""

import os
import sys
from urllib.parse import urljoin

from playwright.sync_api import sync_playwright

PLAY = """async (url) => {
    const video = Object.assign(document.createElement('video'), { muted: true, src: url });
    document.body.replaceChildren(video);
    await new Promise((ready, failed) => {
        video.oncanplaythrough = ready;
        video.onerror = () => failed(new Error(video.error?.message));
    });
    await video.play();
    await new Promise((ended) => { video.onended = ended; });
    const { totalVideoFrames, droppedVideoFrames } = video.getVideoPlaybackQuality();
    return [video.videoWidth, video.videoHeight, video.duration, totalVideoFrames, droppedVideoFrames];
}"""


def main(urls):
    if not urls:
        sys.exit(__doc__)
    executable = os.environ.get("BROWSER_EXECUTABLE", "/usr/bin/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page()
        for url in urls:
            # Same origin as the video, so no other origin has to be allowed.
            page.goto(urljoin(url, "/health"))
            width, height, seconds, frames, dropped = page.evaluate(PLAY, url)
            print(f"{width}x{height}, {seconds} s, {frames} frames, {dropped} dropped: {url}")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
