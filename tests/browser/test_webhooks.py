"""Webhooks of a publisher: created, tested, redelivered and deleted by an owner."""

import json
import unittest

from playwright.sync_api import expect

from support import ADMIN, BrowserTest, Receiver, publish, registry, send, user, wait_until


class Webhooks(BrowserTest):
    def test_a_webhook_is_created_tested_redelivered_and_deleted(self):
        publisher, (node,) = registry()
        page = self.page(f"/publishers/{publisher}/webhooks", token=ADMIN, allowed=(400,))
        expect(page.get_by_role("heading", name="No webhooks")).to_be_visible()
        dialog = page.get_by_role("dialog")
        receiver = Receiver()
        # An invalid URL is shown at its field
        page.get_by_role("button", name="Create webhook").click()
        dialog.get_by_role("textbox", name="URL").fill("ftp://example.org")
        dialog.get_by_label("Version approved").uncheck()
        dialog.get_by_role("button", name="Create", exact=True).click()
        expect(dialog.locator(".field.faulty .fault")).to_contain_text("http")
        dialog.get_by_role("textbox", name="URL").fill(receiver.url)
        dialog.get_by_role("button", name="Create", exact=True).click()
        webhook = page.locator(".release").first
        expect(webhook).to_contain_text(receiver.url)
        expect(webhook).not_to_contain_text("Version approved")

        # A test event arrives, and its delivery is shown
        webhook.get_by_role("button", name="Send test").click()
        deliveries = page.get_by_role("list", name="Deliveries")
        expect(deliveries).to_contain_text("Test event")
        wait_until(lambda: receiver.taken)
        self.assertEqual(json.loads(receiver.taken[0])["type"], "webhook.test")

        # Events of the last day are redelivered
        publish(publisher, node, "1.1.0")
        wait_until(lambda: len(receiver.taken) == 2)
        webhooks = f"/publishers/{publisher}/webhooks"
        path = f"{webhooks}/{send('GET', webhooks)[0]['id']}/deliveries"
        wait_until(lambda: all(item["state"] == "delivered" for item in send("GET", path)["deliveries"]))
        webhook.get_by_role("button", name="Redeliver…").click()
        dialog.get_by_role("button", name="Redeliver", exact=True).click()
        expect(page.get_by_text("2 deliveries queued again")).to_be_visible()
        expect(deliveries).to_contain_text(f"Version published: {node} 1.1.0")
        wait_until(lambda: len(receiver.taken) == 4)

        # A disabled webhook sends no test
        webhook.get_by_role("button", name="Edit").click()
        dialog.get_by_label("Enabled").uncheck()
        dialog.get_by_role("button", name="Save").click()
        expect(webhook.get_by_text("Disabled")).to_be_visible()
        expect(webhook.get_by_role("button", name="Send test")).to_be_disabled()

        webhook.get_by_role("button", name="Delete").click()
        dialog.get_by_role("button", name="Delete").click()
        expect(page.get_by_role("heading", name="No webhooks")).to_be_visible()

    def test_only_owners_see_the_webhooks(self):
        publisher, _ = registry()
        gil = user("Gil")
        send("PUT", f"/publishers/{publisher}/members/{gil['id']}", {"role": "member"})
        page = self.page(f"/publishers/{publisher}", token=gil["token"])
        expect(page.get_by_role("link", name="Members")).to_be_visible()
        expect(page.get_by_role("link", name="Webhooks")).to_have_count(0)


if __name__ == "__main__":
    unittest.main()
