"""Publishers: nodes, versions, members and tokens are created, changed and deleted."""

import re
import unittest
from pathlib import Path

from playwright.sync_api import expect

from support import ADMIN, BrowserTest, archive, name, publish, registry, send, user


class Publishing(BrowserTest):
    def test_a_version_published_over_the_api_appears(self):
        publisher, (node,) = registry()
        page = self.page(f"/nodes/{node}")
        expect(page.get_by_role("heading", name="1.0.0")).to_be_visible()

        publish(publisher, node, "1.1.0", changelog="- Masks are soft\n- `blur` is faster")
        page.reload()

        expect(page.locator(".release h2")).to_have_text(["1.1.0", "1.0.0"])
        expect(page.locator(".release").first.locator("li")).to_have_text(["Masks are soft", "blur is faster"])

    def test_publishing_and_changing_a_version_in_the_console(self):
        publisher, (node,) = registry()
        page = self.page(f"/nodes/{node}", token=ADMIN, allowed=(400,))
        page.get_by_role("button", name="Publish version").click()
        page.get_by_role("textbox", name=re.compile("^Version")).fill("not a version")
        page.get_by_role("button", name="Continue to archive").click()
        expect(page.get_by_role("alert")).to_contain_text("1 invalid field")
        expect(page.locator(".field.faulty")).to_have_count(1)
        expect(page.locator(".field.faulty .fault")).to_contain_text("semantic version")
        page.get_by_role("textbox", name=re.compile("^Version")).fill("2.0.0")
        page.get_by_role("button", name="Continue to archive").click()
        file = {"name": "node.zip", "mimeType": "application/zip", "buffer": archive()}
        page.get_by_label("Archive", exact=True).set_input_files(file)
        page.get_by_role("button", name="Upload archive").click()
        expect(page.locator(".release h2")).to_have_text(["2.0.0", "1.0.0"])

        page.locator(".release").first.get_by_role("button", name="Edit").click()
        page.get_by_label("Changelog").fill("Rewritten.")
        page.get_by_label("Deprecated").check()
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".release").first).to_contain_text("Rewritten.")
        versions = send("GET", f"/nodes/{node}/versions")
        self.assertEqual((versions[0]["changelog"], versions[0]["deprecated"]), ("Rewritten.", True))

    def test_a_node_is_changed_and_everything_is_deleted(self):
        publisher, (node,) = registry()
        send("PUT", f"/publishers/{publisher}/nodes/{node}", {"description": "Before.", "repository": "https://example.org/code"})
        page = self.page(f"/nodes/{node}", token=ADMIN, allowed=(404, 409))
        dialog = page.get_by_role("dialog")
        # Changed fields change, and cleared fields become empty
        page.locator(".actions").get_by_role("button", name="Edit").click()
        dialog.get_by_label("Description").fill("After.")
        dialog.get_by_label("Repository").fill("")
        dialog.get_by_role("button", name="Save").click()
        expect(page.locator(".lead-text")).to_have_text("After.")
        answer = send("GET", f"/nodes/{node}")
        self.assertEqual((answer["description"], answer.get("repository", "")), ("After.", ""))
        # Deleting a version asks for confirmation
        page.locator(".release").get_by_role("button", name="Delete").click()
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
        self.assertEqual(len(send("GET", f"/nodes/{node}/versions")), 1)
        page.locator(".release").get_by_role("button", name="Delete").click()
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog).to_have_count(0)
        self.assertEqual(send("GET", f"/nodes/{node}/versions"), [])
        # A publisher with a node cannot be deleted, with the reason
        self.show(page, f"/publishers/{publisher}")
        page.locator(".actions").get_by_role("button", name="Delete").click()
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog.get_by_role("alert")).to_contain_text("delete it first")
        dialog.get_by_role("button", name="Cancel").click()
        # Without the node, both are deleted
        self.show(page, f"/nodes/{node}")
        page.locator(".actions").get_by_role("button", name="Delete").click()
        dialog.get_by_role("button", name="Delete").click()
        expect(page.get_by_role("heading", name="No nodes yet")).to_be_visible()
        page.locator(".actions").get_by_role("button", name="Delete").click()
        dialog.get_by_role("button", name="Delete").click()
        expect(page.get_by_role("heading", name="Publishers", exact=True)).to_be_visible()
        for path in (f"/nodes/{node}", f"/publishers/{publisher}"):
            with self.assertRaisesRegex(AssertionError, "404"):
                send("GET", path)

    def test_only_owners_are_offered_to_delete(self):
        publisher, (node,) = registry()
        gil = user("Gil")
        send("PUT", f"/publishers/{publisher}/members/{gil['id']}", {"role": "member"})
        page = self.page(f"/nodes/{node}", token=gil["token"])
        delete = page.locator(".actions").get_by_role("button", name="Delete")
        expect(page.locator(".actions").get_by_role("button", name="Edit")).to_be_visible()
        expect(delete).to_have_count(0)
        send("PUT", f"/publishers/{publisher}/members/{gil['id']}", {"role": "owner"})
        page.reload()
        expect(delete).to_be_visible()

    def test_all_nodes_of_a_publisher_are_public(self):
        # Given a publisher whose nodes fill a page exactly
        publisher, _ = registry(24)
        for token in (None, ADMIN):
            page = self.page(f"/publishers/{publisher}", token=token)
            expect(page.locator(".node-card")).to_have_count(24)
            expect(page.get_by_role("navigation", name="Pages")).to_have_count(0)
        # When one is added, then there is a second page
        send("POST", f"/publishers/{publisher}/nodes", {"id": name("last"), "name": "Zzz"})
        for token in (None, ADMIN):
            page = self.page(f"/publishers/{publisher}", token=token)
            page.get_by_role("link", name="Page 2").click()
            expect(page.locator(".node-card")).to_have_count(1)

    def test_a_truncated_search_says_that_there_may_be_more(self):
        publisher, (node,) = registry()
        page = self.page("/nodes")
        answer = send("GET", f"/nodes/search?search={node}")
        page.route("**/nodes/search?*", lambda route: route.fulfill(json={**answer, "total": 9000, "totalPages": 45}))
        self.show(page, f"/publishers/{publisher}")
        expect(page.get_by_text("There may be more")).to_be_visible()
        page.get_by_role("link", name="search for all nodes").click()
        expect(page.get_by_label("Search nodes")).to_have_value(publisher)

    def test_a_token_of_a_publisher_is_shown_once(self):
        publisher, (node,) = registry()
        page = self.page(f"/publishers/{publisher}/tokens", token=ADMIN, allowed=(400,))
        page.get_by_role("button", name="Create token").click()
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.locator(".fault")).to_be_visible()
        page.get_by_role("textbox", name=re.compile("^Name")).fill("build machine")
        page.get_by_role("button", name="Create", exact=True).click()
        page.get_by_role("button", name="Copy token").click()
        token = page.evaluate("navigator.clipboard.readText()")
        self.assertRegex(token, "^mdp_")
        publish(publisher, node, "1.0.1", token=token)
        page.get_by_role("button", name="Done").click()
        expect(page.get_by_text("build machine")).to_be_visible()
        self.assertNotIn(token, page.content())

        page.get_by_role("button", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("heading", name="No tokens")).to_be_visible()
        with self.assertRaisesRegex(AssertionError, "401"):
            publish(publisher, node, "1.0.2", token=token)

    def test_members_are_added_and_removed(self):
        publisher, _ = registry()
        ada = user("Ada of the members")
        page = self.page(f"/publishers/{publisher}/members", token=ADMIN, allowed=(404,))
        page.get_by_role("button", name="Add member").click()
        expect(page.get_by_role("button", name="Add", exact=True)).to_be_disabled()
        page.get_by_role("textbox", name="User id").fill("nobody")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("user nobody not found")
        page.get_by_role("textbox", name="User id").fill(ada["id"])
        page.keyboard.press("Enter")
        row = page.get_by_role("row").filter(has_text="Ada of the members")
        expect(row).to_be_visible()
        row.get_by_role("combobox").select_option("owner")
        expect(page.get_by_text("Saved")).to_be_visible()
        roles = {member["id"]: member["role"] for member in send("GET", f"/publishers/{publisher}")["members"]}
        self.assertEqual(roles[ada["id"]], "owner")
        row.get_by_role("button", name="Remove").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        expect(row).to_have_count(0)

    def test_a_new_user_publishes_a_downloadable_version(self):
        # Given a user with only a token
        ida, publisher, node = user("Ida"), name("ida"), "Idas Masks " + name("n")
        page = self.page("/nodes", allowed=(400,))
        dialog = page.get_by_role("dialog")
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_label("Token", exact=True).fill(ida["token"])
        page.keyboard.press("Enter")
        expect(page.locator(".who")).to_contain_text("Ida")
        expect(page.get_by_role("link", name="Users")).to_have_count(0)
        # When they create a publisher, and a node with only a name
        page.get_by_role("link", name="Publishers").click()
        # The empty list offers the button as well
        page.get_by_role("button", name="Create publisher").first.click()
        dialog.get_by_role("textbox", name=re.compile("^ID")).fill(publisher)
        dialog.get_by_role("textbox", name=re.compile("^Name")).fill("Ida's")
        dialog.get_by_role("button", name="Create", exact=True).click()
        page.get_by_role("button", name="Create node").click()
        expect(dialog.locator(".required")).to_have_text(["ID or Name is required"] * 2)
        dialog.get_by_role("button", name="Create", exact=True).click()
        expect(dialog.get_by_role("alert")).to_contain_text("is required if there is no name")
        dialog.get_by_role("textbox", name=re.compile("^Name")).fill(node)
        dialog.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("heading", name=node)).to_be_visible()
        expect(page.get_by_role("heading", name="No versions")).to_be_visible()
        # And publish a version of it with its archive
        page.get_by_role("button", name="Publish version").click()
        expect(dialog.get_by_text("Node version")).to_have_count(0)
        dialog.get_by_role("textbox", name=re.compile("^Version")).fill("0.1.0")
        dialog.get_by_role("button", name="Continue to archive").click()
        page.get_by_label("Archive", exact=True).set_input_files({"name": "n.zip", "mimeType": "application/zip", "buffer": archive()})
        page.get_by_role("button", name="Upload archive").click()
        # Then it can be installed
        with page.expect_download() as download:
            page.locator(".release").get_by_role("link", name="Download").click()
        self.assertEqual(Path(download.value.path()).read_bytes(), archive())
        # And a publisher token can publish too
        self.show(page, f"/publishers/{publisher}/tokens")
        page.get_by_role("button", name="Create token").click()
        dialog.get_by_role("textbox", name=re.compile("^Name")).fill("build machine")
        dialog.get_by_role("button", name="Create", exact=True).click()
        token = page.locator(".secret").inner_text()
        page.get_by_role("button", name="Done").click()
        id = send("GET", f"/publishers/{publisher}/nodes", token=ida["token"])[0]["id"]
        publish(publisher, id, "0.2.0", token=token)
        self.show(page, f"/nodes/{id}")
        expect(page.locator(".release h2")).to_have_text(["0.2.0", "0.1.0"])

    def test_a_publisher_and_a_node_are_created_from_nothing(self):
        ben, publisher, node = user("Ben"), name("ben"), name("first")
        page = self.page("/publishers", token=ben["token"], allowed=(409,))
        page.get_by_role("button", name="Create publisher").first.click()   # also in the empty list of a service that has none
        page.get_by_role("textbox", name=re.compile("^ID")).fill(publisher)
        page.get_by_role("textbox", name=re.compile("^Name")).fill("Ben's")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("heading", name="Ben's")).to_be_visible()
        expect(page.get_by_role("heading", name="No nodes yet")).to_be_visible()
        page.get_by_role("button", name="Create node").click()
        page.get_by_role("textbox", name=re.compile("^ID")).fill(node)
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("heading", name=node)).to_be_visible()

        page.goto("/#/publishers")
        page.get_by_role("button", name="Create publisher").first.click()
        page.get_by_role("textbox", name=re.compile("^ID")).fill(publisher)
        page.get_by_role("textbox", name=re.compile("^Name")).fill("Again")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text(re.compile("taken|exists", re.I))


if __name__ == "__main__":
    unittest.main()
