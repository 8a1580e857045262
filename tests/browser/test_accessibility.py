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
    def check(self, page, path):
        found = Axe().run(page).response["violations"]
        grave = [f"{it['id']}: {node['target']} {node['failureSummary']}" for it in found if it["impact"] in GRAVE for node in it["nodes"]]
        self.assertEqual(grave, [], path)

    def test_pages_in_light_and_dark(self):
        paths = pages()
        for theme, size in (("light", WIDE), ("dark", WIDE), ("light", NARROW)):
            page = self.page("/nodes", token=ADMIN, theme=theme, size=size, bypass_csp=True)
            for path in paths:
                self.show(page, path)
                self.check(page, f"{path} {theme} {size['width']}")
                wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                self.assertLessEqual(wide, 0, f"{path} is wider than {size['width']}")

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
