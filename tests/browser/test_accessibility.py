"""What axe-core finds on every page, light and dark, wide and narrow."""

import unittest

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from support import ADMIN, NARROW, WIDE, BrowserTest, registry, send

GRAVE = ("serious", "critical")


def pages():
    publisher, (node,) = registry(supported_os=["Linux"], tags=["portrait"], description="Finds faces.")
    return [
        "/nodes", f"/nodes/{node}", f"/nodes/{node}/install", f"/nodes/{node}/about", "/publishers", f"/publishers/{publisher}",
        f"/publishers/{publisher}/members", f"/publishers/{publisher}/tokens", "/studio", "/studio/relightImage", "/tasks", "/state", "/audit", f"/audit/node/{node}?position=1",
        "/moderation", "/users", "/docs", "/docs/upscaleImage", "/nodes?search=nothing-like-this",
    ]


class Accessibility(BrowserTest):
    def grave(self, page, where, **options):
        """What axe-core finds that keeps people out."""
        found = Axe().run(page, options=options or None).response["violations"]
        return [f"{where}: {it['id']}: {node['target']} {node['failureSummary']}" for it in found if it["impact"] in GRAVE for node in it["nodes"]]

    def check(self, page, where):
        self.assertEqual(self.grave(page, where), [])

    def test_every_page(self):
        # Only colours differ in the dark; everything is where it was.
        colours = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
        paths, found = pages(), []
        for theme, size, options in (("light", WIDE, {}), ("dark", WIDE, colours)):
            page = self.page("/nodes", token=ADMIN, theme=theme, size=size, bypass_csp=True)
            for path in paths:
                self.show(page, path)
                found += self.grave(page, f"{path} {theme}", **options)
        self.assertEqual(found, [])

    def test_no_page_is_wider_than_a_narrow_screen(self):
        page, found = self.page("/nodes", token=ADMIN, size=NARROW, bypass_csp=True), []
        for path in pages():
            self.show(page, path)
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found.append(f"{path} is too wide")
        found += self.grave(page, "the last of them, narrow")
        self.assertEqual(found, [])

    def test_dialogs_and_faults(self):
        page = self.page("/users", token=ADMIN, theme="dark", bypass_csp=True, allowed=(400,))
        page.get_by_role("button", name="Create a user").click()
        expect(page.get_by_label("Name")).to_be_visible()
        self.check(page, "dialog")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        self.show(page, "/studio/upscaleImage")
        page.get_by_role("button", name="Make it").click()
        expect(page.locator(".fault")).to_have_count(1)
        self.check(page, "faults")
        page.get_by_role("button", name="Use a sample").click()
        page.get_by_role("button", name="Make it").click()
        page.locator("img[data-result]").wait_for()
        self.check(page, "result")

    def test_the_appearance_is_chosen_and_kept(self):
        page = self.page("/nodes", theme="light")
        ground = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = ground()
        page.get_by_role("button", name="Dark").click()
        dark = ground()
        self.assertNotEqual(light, dark)
        page.reload()
        self.assertEqual(ground(), dark)
        page.get_by_role("button", name="As the system").click()
        self.assertEqual(ground(), light)


if __name__ == "__main__":
    unittest.main()
