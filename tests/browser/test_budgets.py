"""The page of budgets: set, change and remove, and the usage of the service."""

import base64
import unittest

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from support import ADMIN, WIDE, BrowserTest, name, png, send, user

PHONE = {"width": 360, "height": 740}


def submit_task(token):
    """Submits a small picture and returns the id of the task."""
    picture = base64.b64encode(png(8, 8)).decode()
    return send("POST", "/proxy/imagevendor/v1/ai/image-upscaler", {"image": picture}, token=token)["data"]["task_id"]


class Budgets(BrowserTest):
    def test_a_budget_is_set_changed_and_removed(self):
        ada = user(name("Ada"))
        page = self.page("/budgets", token=ADMIN, allowed=(400, 404))
        dialog = page.get_by_role("dialog")
        page.get_by_role("button", name="Set budget").click()
        dialog.get_by_label("Id").fill(ada["id"])
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.locator(".fault")).to_contain_text("is required")
        dialog.get_by_label("Credits").fill("50")
        dialog.get_by_label("Period").select_option(label="a day")
        dialog.get_by_role("button", name="Save").click()

        entry = page.locator(".release").filter(has_text=ada["id"])
        expect(entry).to_contain_text("50 of 50 credits a day left")
        expect(entry.get_by_role("heading")).to_have_text(ada["name"])
        expect(entry.get_by_role("img", name="0 spent and 0 held of 50 credits")).to_be_visible()
        entry.get_by_role("button", name="Change").click()
        dialog.get_by_label("Credits").fill("70")
        dialog.get_by_role("button", name="Save").click()
        expect(entry).to_contain_text("70 of 70 credits a day left")
        self.assertEqual(send("GET", f"/admin/budgets/user/{ada['id']}")["limit"], 70)

        entry.get_by_role("button", name="Remove").click()
        dialog.get_by_role("button", name="Remove").click()
        expect(entry).to_have_count(0)

    def test_long_lists_have_pages(self):
        owner = user(name("Ada"))
        for _ in range(21):
            publisher = name("publisher")
            send("POST", "/publishers", {"id": publisher, "name": publisher}, token=owner["token"])
            send("PUT", f"/admin/budgets/publisher/{publisher}", {"credits": 5, "period": "total"})
        page = self.page("/budgets", token=ADMIN)
        expect(page.locator(".release")).to_have_count(20)
        page.get_by_role("link", name="Page 2", exact=True).click()
        self.until(page, "location.hash.includes('page=2')")
        self.settle(page)
        self.assertGreaterEqual(page.locator(".release").count(), 1)

    def test_the_usage_of_the_service_is_shown_by_user_vendor_and_day(self):
        # Eight tasks, because the chart has only the twelve users with the most tasks.
        ada = user(name("Ada"))
        for _ in range(8):
            submit_task(ada["token"])
        page = self.page("/budgets/usage?by=user", token=ADMIN)
        expect(page.get_by_role("img", name="Tasks by user")).to_be_visible()
        page.get_by_text("Table", exact=True).click()
        expect(page.locator(".chart-table")).to_contain_text(f"{ada['name']} ({ada['id']})")
        page.get_by_label("Vendor", exact=True).check()
        expect(page.get_by_role("img", name="Tasks by vendor")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("button", name="CSV").click()
        self.assertTrue(download.value.path().read_text().startswith("vendor,submissions"))

    def test_the_pages_are_accessible(self):
        ada = user(name("Ada"))
        send("PUT", f"/admin/budgets/user/{ada['id']}", {"credits": 50, "period": "month"})
        submit_task(ada["token"])
        problems = []
        for theme, size in (("light", WIDE), ("dark", WIDE), ("dark", PHONE)):
            page = self.page("/nodes", token=ADMIN, theme=theme, size=size, bypass_csp=True)
            for path in ("/budgets", "/budgets/usage", "/budgets/usage?by=user&show=credits"):
                self.show(page, path)
                page.evaluate("document.querySelectorAll('main details').forEach(it => { it.open = true })")
                findings = Axe().run(page).response["violations"]
                problems += [f"{path} {theme} {size['width']}: {it['id']} {node['target']}" for it in findings for node in it["nodes"]]
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    problems.append(f"{path} is too wide")
            page.get_by_role("button", name="Set budget").click()
            page.get_by_role("dialog").get_by_label("Credits").wait_for()
            problems += [f"the form: {it['id']}" for it in Axe().run(page).response["violations"]]
        self.assertEqual(problems, [])


if __name__ == "__main__":
    unittest.main()
