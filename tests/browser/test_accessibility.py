"""axe-core checks of every page in both themes and two widths."""

import base64
import unittest

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from support import ADMIN, NARROW, WIDE, BrowserTest, name, png, publish, registry, send

GRAVE = ("serious", "critical")
PHONE = {"width": 360, "height": 740}


def task(address="http://127.0.0.1:9/hook", **fields):
    """Creates a task whose webhook receiver fails."""
    picture = base64.b64encode(png(8, 8)).decode()
    sent = {"image": picture, "webhook_url": address, **fields}
    return send("POST", "/proxy/imagevendor/v1/ai/image-upscaler", sent)["data"]["task_id"]


def flagged(node, version="1.0.0"):
    reason = {"status": "NodeVersionStatusFlagged", "status_reason": "Looks odd. " * 20}
    send("PUT", f"/admin/nodes/{node}/versions/{version}", reason)


def pages():
    publisher, (node, odd) = registry(2, supported_os=["Linux"], tags=["portrait"], description="Finds faces.")
    flagged(odd)
    publish(publisher, node, "1.1.0", files={"README.md": "# Faces\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", "node.py": "VALUE = 2\n"})
    return [
        "/nodes", f"/nodes/{node}", f"/nodes/{node}/install", f"/nodes/{node}/about", f"/nodes/{node}/versions",
        f"/nodes/{node}/files", f"/nodes/{node}/changes/1.1.0/1.0.0", "/publishers", f"/publishers/{publisher}",
        f"/publishers/{publisher}/members", f"/publishers/{publisher}/tokens", "/studio", "/studio/relightImage",
        "/studio/startEndToVideo", "/studio/multiframeToVideo", "/studio/generateMusic", "/tasks", f"/tasks/{task()}", "/state",
        "/audit", f"/audit/node/{node}?position=1", "/moderation", "/users", "/docs", "/docs/upscaleImage", "/nodes?search=nothing-like-this",
    ]


def longest():
    """Pages with the longest unbreakable text in every field."""
    text, address = "W" * 200, "https://example.org/" + "w" * 2000
    publisher, node = name("p") + "p" * 50, (name("n") + "n" * 100)[:100]
    send("POST", "/publishers", {"id": publisher, "name": text, "description": text, "support": text, "website": address[:1000],
                                 "source_code_repo": address[:1000], "logo": address})
    fields = {"author": text, "license": text, "category": text, "repository": address, "icon": address, "tags": [text], "supported_os": [text],
              "supported_accelerators": [text], "supported_host_version": text, "description": text, "preempted_host_node_names": [text]}
    send("POST", f"/publishers/{publisher}/nodes", {"id": node, "name": text, **fields})
    version = "1.0.0-" + "a" * 94
    publish(publisher, node, version, changelog=text, dependencies=[text])
    send("POST", "/admin/users", {"name": text, "email": "w" * 300 + "@example.org"})
    send("POST", f"/publishers/{publisher}/tokens", {"name": "w" * 60, "description": text})
    busy = task("http://127.0.0.1:9/" + "w" * 2000, prompt=text)
    paths = [f"/nodes/{node}", f"/nodes/{node}/install", f"/nodes/{node}/about", f"/audit/node/{node}?position=1", f"/nodes?search={node}", f"/publishers/{publisher}",
             f"/publishers/{publisher}/members", f"/publishers/{publisher}/tokens", "/publishers", "/users", f"/tasks/{busy}", f"/audit/task/{busy}", f"/audit?stream=node/{node}"]
    return paths, node, version


class Accessibility(BrowserTest):
    def serious_findings(self, page, where, **options):
        """Returns the serious and critical findings."""
        found = Axe().run(page, options=options or None).response["violations"]
        return [f"{where}: {it['id']}: {node['target']} {node['failureSummary']}" for it in found if it["impact"] in GRAVE for node in it["nodes"]]

    def check(self, page, where):
        self.assertEqual(self.serious_findings(page, where), [])

    def test_every_page(self):
        # The dark theme changes only colours, so one width is enough.
        colours = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
        paths, found = pages(), []
        for theme, size, options in (("light", WIDE, {}), ("dark", WIDE, colours), ("dark", PHONE, {})):
            page = self.page("/nodes", token=ADMIN, theme=theme, size=size, bypass_csp=True)
            for path in paths:
                self.show(page, path)
                # Checks collapsed parts too.
                page.evaluate("document.querySelectorAll('main details').forEach(it => { it.open = true })")
                found += self.serious_findings(page, f"{path} {theme} {size['width']}", **options)
                found += self.too_wide(page, path)
        self.assertEqual(found, [])

    def too_wide(self, page, where):
        return [f"{where} is too wide"] if page.evaluate("document.documentElement.scrollWidth > innerWidth") else []

    def test_no_page_is_wider_than_a_narrow_screen(self):
        (paths, node, version), found = longest(), []
        page = self.page("/nodes", token=ADMIN, size=PHONE, bypass_csp=True)
        for path in paths:
            self.show(page, path)
            found += self.too_wide(page, path)
        # Also dialogs and the moderation list.
        self.show(page, f"/nodes/{node}")
        for button in ("Ban", "Delete", "Publish version"):
            page.locator(".actions").get_by_role("button", name=button, exact=True).click()
            dialog = page.get_by_role("dialog")
            if dialog.evaluate("it => it.scrollWidth > it.clientWidth"):
                found.append(f"the dialog of {button} is too wide")
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
        flagged(node, version)
        self.show(page, "/moderation?list=Flagged")
        expect(page.get_by_role("main")).to_contain_text(version)
        found += self.too_wide(page, "moderation")
        self.assertEqual(found, [])

    def test_dialogs_and_faults(self):
        page = self.page("/users", token=ADMIN, theme="dark", bypass_csp=True, allowed=(400,))
        page.get_by_role("button", name="Create user").click()
        expect(page.get_by_label("Name")).to_be_visible()
        self.check(page, "dialog")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        self.show(page, "/studio/upscaleImage")
        page.get_by_role("button", name="Generate").click()
        expect(page.locator(".fault")).to_have_count(1)
        self.check(page, "faults")
        page.get_by_role("button", name="Use sample").click()
        expect(page.locator(".given")).to_be_visible()
        page.get_by_role("button", name="Generate").click()
        page.locator("img[data-result]").wait_for()
        self.check(page, "result")

    def test_the_form_of_the_reference(self):
        for theme, size in (("light", WIDE), ("dark", PHONE)):
            page = self.page("/docs/updateNode", token=ADMIN, theme=theme, size=size, bypass_csp=True)
            page.get_by_text("Try it", exact=True).click()
            page.get_by_role("button", name="Send request").click()
            expect(page.get_by_role("alert")).to_be_visible()
            self.check(page, "missing parameters")
            self.show(page, "/docs/getHealth")
            page.get_by_text("Try it", exact=True).click()
            page.get_by_role("button", name="Send request").click()
            expect(page.get_by_role("region", name="Response")).to_be_visible()
            self.check(page, "a response")
            self.assertEqual(self.too_wide(page, "the response"), [])

    def test_signing_in(self):
        for theme, size in (("light", WIDE), ("dark", NARROW)):
            page = self.page("/tasks", theme=theme, size=size, bypass_csp=True, allowed=(401,))
            self.check(page, "what needs a token")
            page.get_by_role("main").get_by_role("button", name="Sign in").click()
            self.check(page, "the dialog")
            page.get_by_label("Token", exact=True).fill("mdu_wrong")
            page.keyboard.press("Enter")
            expect(page.get_by_role("alert")).to_be_visible()
            self.check(page, "a wrong token")

    def test_the_appearance_is_chosen_and_kept(self):
        page = self.page("/nodes", theme="light")
        ground = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = ground()
        page.get_by_role("button", name="Dark").click()
        dark = ground()
        self.assertNotEqual(light, dark)
        page.reload()
        self.assertEqual(ground(), dark)
        page.get_by_role("button", name="System").click()
        self.assertEqual(ground(), light)


if __name__ == "__main__":
    unittest.main()
