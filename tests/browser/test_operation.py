"""For administrators: the audit log, the past, state, moderation, users."""

import re
import unittest

from playwright.sync_api import expect

from support import ADMIN, BrowserTest, name, publish, registry, send, user


class Audit(BrowserTest):
    def test_the_timeline_shows_what_happened_newest_first_and_is_filtered(self):
        publisher, (node,) = registry()
        page = self.page("/audit", token=ADMIN)
        expect(page.locator(".event").first).to_be_visible()
        positions = [int(text[1:].replace(",", "")) for text in page.locator(".event .position").all_inner_texts()]
        self.assertEqual(positions, sorted(positions, reverse=True))

        page.get_by_label("Thing").fill(f"node/{node}")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator(".event").last).to_contain_text("Node created")
        page.get_by_label("Type").select_option("VersionPublished")
        expect(page.locator(".event")).to_have_count(1)
        page.reload()
        expect(page.locator(".event")).to_have_count(1)
        page.locator(".event summary").click()
        expect(page.locator(".event pre")).to_contain_text("1.0.0")
        page.locator(".event .inside").get_by_role("link", name=f"node/{node}").click()
        expect(page.get_by_role("heading", name=f"node/{node}")).to_be_visible()

    def test_a_filter_that_cannot_be_says_so_and_nothing_else(self):
        page = self.page("/audit", token=ADMIN, allowed=(400,))
        expect(page.locator(".event").first).to_be_visible()
        page.get_by_label("Who").fill("nobody")
        page.get_by_role("button", name="Filter").click()
        expect(page.get_by_role("alert")).to_contain_text("must be system")
        expect(page.get_by_role("alert").get_by_role("listitem")).to_have_count(0)
        expect(page.locator(".event, .empty")).to_have_count(0)

    def test_it_is_followed_live(self):
        page = self.page("/audit?stream=publisher/", token=ADMIN)
        page.get_by_role("button", name="Follow live").click()
        expect(page.locator(".pulse.live")).to_be_visible()
        publisher = name("live")
        send("POST", "/publishers", {"id": publisher, "name": "Live"})
        expect(page.locator(".event.fresh").filter(has_text=publisher).first).to_be_visible()

    def test_a_thing_as_it_was_and_what_changed(self):
        publisher, (node,) = registry(description="Before.")
        send("PUT", f"/publishers/{publisher}/nodes/{node}", {"description": "After."})
        page = self.page(f"/audit/node/{node}", token=ADMIN)
        change = page.locator(".history > li").last
        expect(change.locator("dt")).to_have_text("/description")
        expect(change.locator("del")).to_contain_text("Before.")
        expect(change.locator("ins")).to_contain_text("After.")
        page.get_by_role("button", name=re.compile("As of")).first.click()
        expect(page.locator(".as-of pre")).to_contain_text('"description": "Before."')
        page.get_by_role("button", name=re.compile("As of")).last.click()
        expect(page.locator(".as-of pre")).to_contain_text('"description": "After."')
        page.get_by_label("A moment (UTC)").fill("2001-01-01T00:00")
        expect(page.locator(".as-of")).to_contain_text("It was not there")


class Operation(BrowserTest):
    def test_the_state_of_the_service(self):
        page = self.page("/state", token=ADMIN)
        expect(page.locator(".gauge").first).to_contain_text("Ready")
        head = send("GET", "/admin/state")["log"]["head"]
        expect(page.locator(".gauge").nth(1)).to_contain_text(re.compile(r"\d"))
        self.assertGreater(head, 0)
        for vendor in send("GET", "/admin/state")["vendors"]:
            expect(page.get_by_text(vendor["name"])).to_be_visible()
        # The log of this service was begun by this very start: there was nothing to be verified.
        self.assertEqual(send("GET", "/admin/state")["verification"]["until"], 0)
        expect(page.locator(".gauge").filter(has_text="Verification")).to_contain_text("Not verified yet")
        page.get_by_role("button", name="Take a checkpoint").click()
        expect(page.locator("pre")).to_contain_text('"signature"')

    def test_only_what_was_verified_is_called_sound(self):
        page = self.page("/nodes", token=ADMIN)
        told = send("GET", "/admin/state")
        page.route("**/admin/state", lambda route: route.fulfill(json=told))
        gauge = page.locator(".gauge").filter(has_text="Verification")
        for said, expected in [
            ({"state": "checking", "position": 0}, "Not verified yet"),
            ({"state": "checking", "position": 45}, "50 % verified"),
            ({"state": "damaged", "position": 45, "reason": "damage at offset 512"}, "damage at offset 512"),
            ({"state": "sound", "position": 90}, "up to position 90"),
        ]:
            told["verification"] = {"until": 90, "since": "2026-02-01T09:00:00.000000Z", **said}
            # The page looks again every few seconds.
            self.show(page, "/state")
            expect(gauge).to_contain_text(expected)
            self.assertEqual("Sound" in gauge.inner_text(), said["state"] == "sound")

    def test_a_version_is_flagged_and_approved(self):
        publisher, (node,) = registry()
        send("PUT", f"/admin/nodes/{node}/versions/1.0.0", {"status": "NodeVersionStatusFlagged", "status_reason": "Looks odd."})
        page = self.page("/moderation", token=ADMIN)
        entry = page.locator(".release").filter(has_text=node)
        expect(entry).to_contain_text("Looks odd.")
        entry.get_by_role("button", name="Approve").click()
        page.get_by_label("Reason").fill("Looked at.")
        page.get_by_role("dialog").get_by_role("button", name="Approve").click()
        expect(entry).to_have_count(0)
        self.assertEqual(send("GET", f"/nodes/{node}/versions/1.0.0")["status"], "NodeVersionStatusActive")

    def test_banning_needs_a_reason_and_can_be_taken_back(self):
        _, (node,) = registry()
        page = self.page(f"/nodes/{node}", token=ADMIN)
        page.get_by_role("button", name="Ban").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Ban", exact=True)).to_be_disabled()
        dialog.get_by_label("Reason").fill("Mines coins.")
        dialog.get_by_role("button", name="Ban", exact=True).click()
        expect(page.locator(".trouble")).to_contain_text("Mines coins.")
        page.get_by_role("button", name="Unban").click()
        page.get_by_label("Reason").fill("It did not.")
        page.get_by_role("dialog").get_by_role("button", name="Unban").click()
        expect(page.locator(".trouble")).to_have_count(0)
        self.assertEqual(send("GET", f"/nodes/{node}")["status"], "NodeStatusActive")

    def test_users_are_made_and_given_tokens(self):
        page = self.page("/users", token=ADMIN)
        who = name("Cleo")
        page.get_by_role("button", name="Create a user").click()
        page.get_by_role("textbox", name=re.compile("^Name")).fill(who)
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        users = [user["name"] for user in send("GET", "/admin/users?limit=1000")["users"] if "name" in user]
        self.show(page, f"/users?page={users.index(who) // 25 + 1}")
        row = page.get_by_role("row").filter(has_text=who)
        row.get_by_role("button", name="Tokens").click()
        page.get_by_role("button", name="Create a token").click()
        page.get_by_role("textbox", name=re.compile("^Name")).fill("laptop")
        page.get_by_role("button", name="Create", exact=True).click()
        token = page.locator(".secret").inner_text()
        self.assertEqual(send("GET", "/users", token=token)["name"], who)

    def test_users_without_a_name_are_called_by_their_address_or_their_id(self):
        known, bare = send("POST", "/admin/users", {"email": "eve@example.org"}), send("POST", "/admin/users", {})
        users = [user["id"] for user in send("GET", "/admin/users?limit=1000")["users"]]
        page = self.page("/users", token=ADMIN)
        for user, called in ((known, "eve@example.org"), (bare, f"User …{bare['id'][-6:]}")):
            self.show(page, f"/users?page={users.index(user['id']) // 25 + 1}")
            row = page.get_by_role("row").filter(has_text=user["id"])
            expect(row.locator("strong")).to_have_text(called)

    def test_what_is_for_administrators_is_not_shown_to_others(self):
        page = self.page("/audit", token=user("Dora")["token"])
        expect(page.get_by_role("heading", name="For administrators").first).to_be_visible()
        expect(page.get_by_role("link", name="Audit log")).to_have_count(0)


if __name__ == "__main__":
    unittest.main()
