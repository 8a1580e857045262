"""The console: errors of forms, notifications, widths, titles, typed URLs, and pictures of a node."""

import re
import unittest

from playwright.sync_api import expect

from support import ADMIN, NARROW, REPORTS, WIDE, BrowserTest, name, png, registry, send, user

START_END = "/proxy/videovendor/start-end2video"
# Returns the buttons and fields in view that a notification overlaps.
COVERED = """(() => {
    const box = document.querySelector('.notes p').getBoundingClientRect();
    return [...document.querySelectorAll('button, .button, input, select, textarea')].filter((it) => {
        const { left, right, top, bottom, width } = it.getBoundingClientRect();
        return width > 0 && left < box.right && right > box.left && top < box.bottom && bottom > box.top;
    }).map((it) => it.outerHTML.slice(0, 80));
})()"""


class Console(BrowserTest):
    def test_an_error_disappears_when_its_field_is_changed(self):
        page = self.page("/account/tokens", token=user(name("Ada"))["token"], allowed=(400,))
        page.get_by_role("button", name="Create token").click()
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.locator(".trouble")).to_contain_text("Name")
        field = page.get_by_label("Name")
        field.press_sequentially("CI")
        expect(page.locator(".trouble, .fault")).to_have_count(0)
        expect(field).to_be_focused()
        expect(field).to_have_value("CI")

    def test_other_errors_stay_when_a_field_is_changed(self):
        page = self.page("/users", token=ADMIN, allowed=(400,))
        page.get_by_role("button", name="Create user").click()
        page.get_by_label("Email").fill("none")
        page.get_by_label("Name").fill("x" * 300)
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.locator(".fault")).to_have_count(2)
        page.get_by_label("Email").fill("ada@example.org")
        expect(page.locator(".fault")).to_have_count(1)
        expect(page.locator(".trouble li")).to_have_count(1)
        expect(page.get_by_label("Email")).to_be_focused()

    def test_an_error_of_a_job_disappears_when_its_field_is_changed(self):
        page = self.page("/studio/startEndToVideo", token=ADMIN, allowed=(400,))
        page.get_by_role("button", name="Generate", exact=True).click()
        expect(page.locator(".fault").first).to_be_visible()
        page.get_by_label("Prompt", exact=True).fill("waves")
        expect(page.locator(".fault")).to_have_count(0)
        expect(page.locator(".trouble")).to_have_count(0)

    def test_a_running_task_leaves_the_gallery_when_it_fails(self):
        person = user(name("Ada"))
        body = {"prompt": "waves", "duration": 8, "model": "vq2-pro", "resolution": "1080p"}
        task = send("POST", START_END, body, token=person["token"])["task_id"]
        page = self.page("/studio", token=person["token"])
        expect(page.locator(".shot .state")).to_have_text("In progress")
        send("POST", f"/tasks/{task}/cancel", {}, token=person["token"])
        expect(page.locator(".shot")).to_have_count(0)

    def test_the_tasks_fit_in_the_width_of_the_window(self):
        send("POST", START_END, {"prompt": "waves", "duration": 1, "model": "vq2-pro"})
        page = self.page("/tasks", token=ADMIN)
        for width in (1408, 1360, 1280, 1200, 1150, 1100, 1089, 1024, 800, 390):
            page.set_viewport_size({"width": width, "height": 800})
            self.settle(page)
            expect(page.locator("table.tasks")).to_be_visible()
            self.until(page, "document.documentElement.scrollWidth <= innerWidth", seconds=5)

    def test_a_notification_covers_no_button(self):
        for size in (WIDE, NARROW):
            page = self.page("/studio/upscaleImage", token=ADMIN, size=size)
            self.settle(page)
            page.locator("input[type=file]").first.set_input_files({"name": "letter.txt", "mimeType": "text/plain", "buffer": b"Dear Ada"})
            expect(page.locator(".notes .warn")).to_have_text(re.compile("letter.txt is not a picture"))
            self.assertEqual(page.evaluate(COVERED), [], size)

    def test_the_appearance_can_be_chosen_in_a_low_and_in_a_narrow_window(self):
        for width, height in ((1280, 800), (1280, 600), (800, 800), (800, 600)):
            page = self.page("/nodes", token=ADMIN, size={"width": width, "height": height})
            self.settle(page)
            if width == 800:
                page.get_by_role("button", name="Menu").click()
            dark = page.get_by_role("button", name="Dark")
            expect(dark).to_be_in_viewport(ratio=1)
            dark.click()
            self.until(page, "document.documentElement.dataset.theme === 'dark'")

    def test_a_missing_page_has_a_title(self):
        page = self.page("/nothing")
        expect(page).to_have_title("Not found · Mediary")
        self.show(page, "/tasks")
        expect(page).to_have_title("Sign in · Mediary")

    def test_the_typed_url_of_a_page_leads_to_it(self):
        page = self.page("/nodes", token=ADMIN)
        for typed, heading in (("/studio", "Studio"), ("/account", re.compile("Account|Administrator")), ("/audit", "Audit log"), ("/docs", re.compile("API"))):
            page.goto(typed)
            expect(page.locator("h1").first).to_have_text(heading)
            self.until(page, f"location.pathname === '/' && location.hash === '#{typed}'")

    def test_the_pictures_of_a_node_are_uploaded_and_shown(self):
        publisher, (node,) = registry()
        page = self.page(f"/nodes/{node}", token=ADMIN, allowed=(400,))
        page.get_by_role("button", name="Pictures").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Icon").set_input_files({"name": "icon.png", "mimeType": "image/png", "buffer": b"no picture"})
        dialog.get_by_role("button", name="Upload").click()
        expect(dialog.get_by_role("alert")).to_contain_text("Image")
        dialog.get_by_label("Icon").set_input_files({"name": "icon.png", "mimeType": "image/png", "buffer": png(64, 64)})
        dialog.get_by_label("Banner").set_input_files({"name": "banner.png", "mimeType": "image/png", "buffer": png(500, 100)})
        dialog.get_by_role("button", name="Upload").click()
        for picture in ("img.monogram", "img.banner"):
            expect(page.locator(picture)).to_be_visible()
            self.until(page, f"document.querySelector('{picture}').naturalWidth > 0")
        page.screenshot(path=REPORTS / "node-pictures.png")
        self.show(page, f"/nodes?search={node}")
        expect(page.locator(".card img.monogram")).to_be_visible()

        # Removed again
        self.show(page, f"/nodes/{node}")
        page.get_by_role("button", name="Pictures").click()
        page.get_by_role("button", name="Remove banner").click()
        expect(page.locator("img.banner")).to_have_count(0)
        self.assertNotIn("banner_url", send("GET", f"/nodes/{node}"))


if __name__ == "__main__":
    unittest.main()
