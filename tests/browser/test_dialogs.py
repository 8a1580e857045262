"""Dialogs and forms: focus, closing, sent fields."""

import json
import re
import unittest

from playwright.sync_api import expect

from support import ADMIN, NARROW, WIDE, BrowserTest, archive, name, pixels, registry, send, user


def click_outside(page):
    """Clicks outside the dialog."""
    box = page.locator("dialog").last.bounding_box()
    page.mouse.click(box["x"] - 8, box["y"] + 20)


class Dialogs(BrowserTest):
    def test_a_dialog_focuses_its_first_field_and_restores_the_focus(self):
        # Given a form that is opened by keyboard
        page = self.page("/users", token=ADMIN)
        opener = page.get_by_role("button", name="Create user")
        opener.focus()
        page.keyboard.press("Enter")
        # Then the first field has the focus, and closing returns it
        expect(page.get_by_role("textbox", name="Name")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(opener).to_be_focused()

    def test_the_focus_moves_to_the_page_if_the_opener_is_gone(self):
        publisher, _ = registry(0)
        send("POST", f"/publishers/{publisher}/tokens", {"name": "build machine"})
        page = self.page(f"/publishers/{publisher}/tokens", token=ADMIN)
        page.get_by_role("button", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("heading", name="No tokens")).to_be_visible()
        expect(page.get_by_role("main")).to_be_focused()

    def test_a_click_outside_does_not_discard_input(self):
        # Given a window so low that the form does not fit
        page = self.page("/users", token=ADMIN, size={"width": 1360, "height": 360})
        dialog, opener = page.get_by_role("dialog"), page.get_by_role("button", name="Create user")
        opener.click()
        expect(page.get_by_role("textbox", name="Name")).to_be_focused()
        # Then the content scrolls, not the dialog, so a click on the scrollbar is not outside
        self.assertFalse(page.evaluate("(({ scrollHeight, clientHeight }) => scrollHeight > clientHeight)(document.querySelector('dialog'))"))
        self.assertTrue(page.evaluate("(({ scrollHeight, clientHeight }) => scrollHeight > clientHeight)(document.querySelector('dialog > .dialog'))"))
        # And a click outside closes the dialog only while the form is empty
        click_outside(page)
        expect(dialog).to_have_count(0)
        opener.click()
        page.get_by_role("textbox", name="Name").fill("Ada")
        click_outside(page)
        expect(page.get_by_role("textbox", name="Name")).to_have_value("Ada")

    def test_sticky_buttons_do_not_cover_fields(self):
        publisher, _ = registry(0)
        for size in (NARROW, {"width": 1280, "height": 600}):
            page = self.page(f"/publishers/{publisher}", token=ADMIN, size=size)
            page.get_by_role("button", name="Create node").click()
            dialog = page.get_by_role("dialog")
            create = dialog.get_by_role("button", name="Create", exact=True)
            expect(create).to_be_in_viewport(ratio=1)
            # Each focused field is visible
            fields = dialog.locator("form").locator("input:visible, textarea:visible, select:visible")
            for field in fields.all():
                field.focus()
                middle = field.evaluate("it => { const { top, bottom } = it.getBoundingClientRect(); return (top + bottom) / 2; }")
                self.assertLess(middle, create.bounding_box()["y"], field.get_attribute("id"))
            expect(create).to_be_in_viewport(ratio=1)

    def test_a_new_token_dialog_closes_only_with_its_button(self):
        page = self.page(f"/publishers/{registry(0)[0]}/tokens", token=ADMIN)
        page.get_by_role("button", name="Create token").click()
        page.get_by_role("textbox", name=re.compile("^Name")).fill("build machine")
        page.get_by_role("button", name="Create", exact=True).click()
        token = page.locator(".secret").inner_text()
        for _ in range(3):
            page.keyboard.press("Escape")
        click_outside(page)
        expect(page.get_by_role("dialog", name="New token")).to_be_visible()
        expect(page.locator(".secret")).to_have_text(token)
        page.get_by_role("button", name="Done").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("button", name="Create token")).to_be_focused()

    def test_an_archive_can_be_uploaded_later(self):
        # Given a registered version, and a cancelled file choice
        publisher, (node,) = registry()
        page = self.page(f"/nodes/{node}", token=ADMIN)
        page.get_by_role("button", name="Publish version").click()
        page.get_by_role("textbox", name=re.compile("^Version")).fill("2.0.0")
        page.get_by_role("button", name="Continue to archive").click()
        page.get_by_label("Archive", exact=True).dispatch_event("cancel", {"bubbles": True})
        # Then the dialog stays open, and leaving it does not report a publication
        page.get_by_role("button", name="Later").click()
        expect(page.locator(".notes")).to_have_text(re.compile("Waiting for the archive"))
        expect(page.get_by_role("button", name="Publish version")).to_be_focused()
        release = page.locator(".release").filter(has_text="2.0.0")
        expect(release).to_contain_text("No archive yet")
        # And the archive can be uploaded later
        release.get_by_role("button", name="Add archive").click()
        expect(page.get_by_label("Archive", exact=True)).to_be_focused()
        page.get_by_label("Archive", exact=True).set_input_files({"name": "node.zip", "mimeType": "application/zip", "buffer": archive()})
        page.get_by_role("button", name="Upload archive").click()
        expect(release.get_by_role("link", name="Download")).to_be_visible()
        self.assertEqual(send("GET", f"/nodes/{node}/versions")[0]["version"], "2.0.0")


class Scrollbars(BrowserTest):
    # A headless browser hides scrollbars, except their gutters.
    launch_options = {"ignore_default_args": ["--hide-scrollbars"]}

    def test_the_right_edge_is_dimmed_with_the_page(self):
        publisher, _ = registry(4)
        for theme in ("light", "dark"):
            # Given a page with an empty gutter, and one that is scrolled
            for size, is_scrolled in ((WIDE, False), ({"width": 1360, "height": 330}, True)):
                with self.subTest(theme=theme, is_scrolled=is_scrolled):
                    page = self.page(f"/publishers/{publisher}/tokens", token=ADMIN, theme=theme, size=size)
                    opener = page.get_by_role("button", name="Create token")
                    expect(opener).to_be_visible()
                    edge = page.evaluate("document.body.clientWidth")
                    self.assertLess(edge, size["width"])
                    page.evaluate("scrollTo(0, 40)")
                    self.assertEqual(page.evaluate("scrollY"), 40 if is_scrolled else 0)
                    before = pixels(self.browser, page.screenshot(), [edge - 2])
                    # When a dialog opens
                    opener.evaluate("it => it.click()")
                    expect(page.get_by_role("dialog")).to_be_visible()
                    # Then the edge has the colour of the dimmed page beside it
                    inside, *strip = pixels(self.browser, page.screenshot(), [edge - 2, *range(edge, size["width"])])
                    self.assertNotEqual([inside], before)
                    for number, column in enumerate(strip):
                        differences = [max(abs(one - other) for one, other in zip(*pair)) for pair in zip(inside, column)]
                        self.assertLessEqual(max(differences), 2, f"column {edge + number}")
                    # And the page keeps its width and its place
                    self.assertEqual(page.evaluate("[document.body.clientWidth, scrollY]"), [edge, 40 if is_scrolled else 0])
                    page.keyboard.press("Escape")
                    expect(page.get_by_role("dialog")).to_have_count(0)
                    self.assertEqual(page.evaluate("scrollY"), 40 if is_scrolled else 0)


class Forms(BrowserTest):
    def test_only_changed_fields_are_sent(self):
        # Given a node, and a form with its fields
        publisher, (node,) = registry(description="Before.", author="Ada", tags=["one"], license="LICENSE")
        page = self.page(f"/nodes/{node}", token=ADMIN)
        page.get_by_role("button", name="Edit", exact=True).first.click()
        page.get_by_label("Description").fill("After.")
        page.get_by_label("Author").fill("")
        page.get_by_label("Tags").fill("")
        # And another user who changes another field
        send("PUT", f"/publishers/{publisher}/nodes/{node}", {"license": "COPYING"})
        with page.expect_request(lambda request: request.method == "PUT") as sent:
            page.get_by_role("button", name="Save").click()
        self.assertEqual(sent.value.post_data_json, {"description": "After.", "author": "", "tags": []})
        expect(page.get_by_text("Saved")).to_be_visible()
        self.assertEqual(send("GET", f"/nodes/{node}")["license"], "COPYING")

    def test_url_fields_have_url_inputs(self):
        publisher, (node,) = registry()
        for path, labels in ((f"/nodes/{node}", ("Repository", "Icon", "Banner URL")), (f"/publishers/{publisher}", ("Logo",))):
            page = self.page(path, token=ADMIN)
            page.get_by_role("button", name="Edit", exact=True).first.click()
            for label in labels:
                self.assertEqual(page.get_by_role("dialog").get_by_label(label, exact=True).get_attribute("type"), "url", label)
            # And other strings are not URL fields
            self.assertNotEqual(page.get_by_role("dialog").get_by_label("Description", exact=True).get_attribute("type"), "url")

    def test_admin_fields_are_not_in_forms(self):
        publisher, (node,) = registry()
        page = self.page(f"/nodes/{node}", token=ADMIN)
        page.get_by_role("button", name="Edit", exact=True).first.click()
        expect(page.get_by_label("Description")).to_be_visible()
        for label in ("ID", "Created at", "Status", "Downloads", "Tags admin", "Translations"):
            expect(page.get_by_role("dialog").get_by_label(label, exact=True)).to_have_count(0)

    def test_a_resent_form_keeps_its_idempotency_key(self):
        # Given a service that does not answer the first time
        page = self.page("/users", token=ADMIN, allowed=(503,))
        keys = []

        def refuse(route):
            if route.request.method != "POST":
                return route.continue_()
            keys.append(route.request.headers["idempotency-key"])
            if len(keys) < 4:
                return route.fulfill(status=503, content_type="application/problem+json", body=json.dumps({"title": "Later", "status": 503, "error": "overloaded"}))
            return route.continue_()

        page.route("**/admin/users", refuse)
        page.get_by_role("button", name="Create user").click()
        create = page.get_by_role("button", name="Create", exact=True)
        # When it is sent twice, and once more after a change
        for text in (name("ada"), None, name("bob")):
            if text:
                page.get_by_role("textbox", name="Name").fill(text)
            with page.expect_response(lambda answer: answer.status == 503):
                create.click()
            expect(create).to_be_enabled()
        create.click()
        expect(page.get_by_text("Saved")).to_be_visible()
        # Then the same values have the same key, and changed values another
        self.assertEqual(keys[0], keys[1])
        self.assertNotEqual(keys[1], keys[2])
        self.assertEqual(keys[2], keys[3])


class Copying(BrowserTest):
    def without_clipboard(self, page):
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")

    def test_copying_works_on_plain_http(self):
        known = user("Ada of the copies")
        page = self.page("/nodes", token=known["token"])
        self.without_clipboard(page)
        copy = page.get_by_role("button", name="Copy your user id")
        copy.click()
        expect(copy).to_contain_text("Copied")
        expect(copy).to_be_focused()
        page.get_by_label("Search nodes").focus()
        page.keyboard.press("ControlOrMeta+V")
        expect(page.get_by_label("Search nodes")).to_have_value(known["id"])

    def test_a_failed_copy_selects_the_text_and_says_so(self):
        known = user("Ada of the copies")
        page = self.page("/nodes", token=known["token"])
        self.without_clipboard(page)
        page.evaluate("document.execCommand = () => false")
        page.get_by_role("button", name="Copy your user id").click()
        expect(page.locator(".notes .warn")).to_contain_text("Copying failed")
        self.assertEqual(page.evaluate("getSelection().toString()"), known["id"])

    def test_a_token_that_cannot_be_copied_is_selected(self):
        page = self.page(f"/publishers/{registry(0)[0]}/tokens", token=ADMIN)
        self.without_clipboard(page)
        page.evaluate("document.execCommand = () => false")
        page.get_by_role("button", name="Create token").click()
        page.get_by_role("textbox", name=re.compile("^Name")).fill("build machine")
        page.get_by_role("button", name="Create", exact=True).click()
        page.get_by_role("button", name="Copy token").click()
        expect(page.get_by_role("button", name="Copy token")).to_contain_text("Not copied")
        self.assertEqual(page.evaluate("getSelection().toString()"), page.locator(".secret").inner_text())


if __name__ == "__main__":
    unittest.main()
