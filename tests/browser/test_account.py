"""The account page: tokens, usage, budgets, webhook secret, export and erasure."""

import base64
import json
import unittest

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from support import WIDE, BrowserTest, name, png, send, user

PHONE = {"width": 360, "height": 740}


def submit_task(token):
    """Submits a small picture and returns the id of the task."""
    picture = base64.b64encode(png(8, 8)).decode()
    return send("POST", "/proxy/imagevendor/v1/ai/image-upscaler", {"image": picture}, token=token)["data"]["task_id"]


class Account(BrowserTest):
    def test_a_token_is_created_shown_once_and_revoked(self):
        ada = user(name("Ada"))
        page = self.page("/account/tokens", token=ada["token"])
        page.get_by_role("button", name="Create token").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("backup")
        dialog.get_by_label("Scope").select_option(label="Read only")
        dialog.get_by_label("Expires").select_option(label="In 30 days")
        dialog.get_by_role("button", name="Create", exact=True).click()
        token = page.locator(".secret").inner_text()
        dialog.get_by_role("button", name="Done").click()

        row = page.get_by_role("row").filter(has_text="backup")
        expect(row).to_contain_text("Read only")
        expect(row.locator("time").last).to_be_visible()
        self.assertEqual(send("GET", "/users", token=token)["id"], ada["id"])
        with self.assertRaisesRegex(AssertionError, "read-only"):
            send("POST", "/publishers", {"id": name("claim")}, token=token)

        row.get_by_role("button", name="Revoke").click()
        dialog.get_by_role("button", name="Revoke").click()
        expect(row).to_have_count(0)
        with self.assertRaisesRegex(AssertionError, "401"):
            send("GET", "/users", token=token)

    def test_a_refused_token_names_the_field(self):
        ada = user(name("Ada"))
        expiring = send("POST", "/users/tokens", {"name": "short", "expiresAt": "2100-01-01T00:00:00Z"}, token=ada["token"])["token"]
        page = self.page("/account/tokens", token=expiring, allowed=(400,))
        page.get_by_role("button", name="Create token").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Create", exact=True).click()
        expect(dialog.locator(".fault")).to_contain_text("blank")
        dialog.get_by_label("Name").fill("longer")
        dialog.get_by_role("button", name="Create", exact=True).click()
        expect(dialog.locator(".fault")).to_contain_text("2100-01-01")

    def test_usage_and_budgets_are_shown(self):
        ada = user(name("Ada"))
        send("PUT", f"/admin/budgets/user/{ada['id']}", {"credits": 50, "period": "day"})
        submit_task(ada["token"])
        page = self.page("/account", token=ada["token"])
        expect(page.get_by_role("main")).to_contain_text("50 of 50 credits a day left")
        chart = page.get_by_role("img", name="Tasks by day")
        expect(chart).to_be_visible()
        self.assertIn("1 in total", chart.locator("desc").text_content())
        # The table has the values of the drawing.
        page.get_by_text("Table", exact=True).click()
        today = page.locator(".chart-table tbody tr").first
        expect(today).to_contain_text("1")
        self.assertEqual(page.locator(".chart-table tbody tr").count(), 30)
        # The choices are in the address, and survive a reload.
        page.get_by_label("7 days").check()
        expect(page.locator(".chart-table tbody tr")).to_have_count(7)
        page.reload()
        expect(page.get_by_label("7 days")).to_be_checked()
        with page.expect_download() as download:
            page.get_by_role("button", name="CSV").click()
        self.assertTrue(download.value.path().read_text().startswith("day,submissions"))

    def test_the_webhook_secret_is_rotated_and_revoked(self):
        ada = user(name("Ada"))
        page = self.page("/account/webhooks", token=ada["token"])
        page.get_by_role("button", name="Create a new secret").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Create", exact=True).click()
        expect(page.locator(".secret")).to_contain_text("whsec_")
        dialog.get_by_role("button", name="Done").click()
        page.get_by_role("button", name="Revoke all secrets").click()
        dialog.get_by_role("button", name="Revoke", exact=True).click()
        expect(dialog).to_have_count(0)
        history = send("GET", f"/admin/events?stream=user/{ada['id']}")["events"]
        self.assertEqual([event["type"] for event in history][-2:], ["WebhookSecretRotated", "WebhookSecretsRevoked"])

    def test_the_account_is_downloaded(self):
        ada = user(name("Ada"))
        task_id = submit_task(ada["token"])
        page = self.page("/account/data", token=ada["token"])
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        export = json.loads(download.value.path().read_text())
        self.assertEqual((export["account"]["id"], [task["task_id"] for task in export["tasks"]]), (ada["id"], [task_id]))

    def test_an_erasure_names_what_is_lost(self):
        ada = user(name("Ada"))
        publishers = [name("publisher"), name("publisher")]
        for publisher in publishers:
            send("POST", "/publishers", {"id": publisher, "name": publisher}, token=ada["token"])
        page = self.page("/account/data", token=ada["token"], allowed=(409, 401))
        page.get_by_role("button", name="Erase the account").click()
        dialog = page.get_by_role("dialog")
        for loss in ("1 token", "2 publishers", *publishers, "name and e-mail address"):
            expect(dialog).to_contain_text(loss)
        erase = dialog.get_by_role("button", name="Erase", exact=True)
        expect(erase).to_be_disabled()
        # The last owner of a publisher cannot be erased.
        dialog.get_by_label("I understand that this is permanent").check()
        erase.click()
        expect(dialog.get_by_role("alert")).to_contain_text(publishers[0])
        for publisher in publishers:
            send("DELETE", f"/publishers/{publisher}")
        erase.click()
        expect(page.get_by_role("button", name="Sign in").first).to_be_visible()
        users = send("GET", f"/admin/users?user_id={ada['id']}")["users"]
        self.assertTrue(users[0]["erased"])

    def test_every_tab_is_accessible(self):
        ada = user(name("Ada"), isApproved=True)
        send("PUT", f"/admin/budgets/user/{ada['id']}", {"credits": 50, "period": "month"})
        submit_task(ada["token"])
        problems = []
        for theme, size in (("light", WIDE), ("dark", WIDE), ("dark", PHONE)):
            page = self.page("/nodes", token=ada["token"], theme=theme, size=size, bypass_csp=True)
            for path in ("/account", "/account?by=job&show=credits", "/account/tokens", "/account/webhooks", "/account/data"):
                self.show(page, path)
                page.evaluate("document.querySelectorAll('main details').forEach(it => { it.open = true })")
                findings = Axe().run(page).response["violations"]
                problems += [f"{path} {theme} {size['width']}: {it['id']} {node['target']}" for it in findings for node in it["nodes"]]
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    problems.append(f"{path} is too wide")
            self.show(page, "/account/tokens")
            page.get_by_role("button", name="Create token").click()
            page.get_by_role("dialog").get_by_label("Name").wait_for()
            problems += [f"the form: {it['id']}" for it in Axe().run(page).response["violations"]]
        self.assertEqual(problems, [])


if __name__ == "__main__":
    unittest.main()
