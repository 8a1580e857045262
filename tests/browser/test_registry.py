"""The registry: signing in, browsing, searching, nodes and reviews."""

import unittest

from playwright.sync_api import expect

from support import ADMIN, NARROW, WIDE, BrowserTest, archive, document, name, publish, registry, send, user, wait_until


class Registry(BrowserTest):
    def test_signing_in_and_out(self):
        page = self.page("/tasks", allowed=(401,))
        expect(page.get_by_role("heading", name="Sign-in required")).to_be_visible()

        page.get_by_role("main").get_by_role("button", name="Sign in").click()
        page.get_by_label("Token", exact=True).fill("mdu_wrong")
        page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("Unknown token")
        page.get_by_label("Token", exact=True).fill(ADMIN)
        page.keyboard.press("Enter")

        expect(page.get_by_role("heading", name="Tasks", exact=True)).to_be_visible()
        self.assertEqual(page.evaluate("sessionStorage.getItem('mediary.token')"), ADMIN)
        self.assertEqual(page.evaluate("JSON.stringify(localStorage)"), "{}")
        self.assertNotIn(ADMIN, page.url)
        page.reload()
        expect(page.get_by_role("heading", name="Tasks", exact=True)).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign-in required")).to_be_visible()
        self.assertIsNone(page.evaluate("sessionStorage.getItem('mediary.token')"))

    def test_a_failed_token_lookup_is_not_reported_as_an_unknown_token(self):
        page = self.page("/nodes", token=ADMIN, allowed=(500,))
        broken = {"type": "about:blank", "title": "Something broke", "status": 500, "error": "internal", "detail": "It is being looked at."}
        page.route("**/users", lambda route: route.fulfill(status=500, content_type="application/problem+json", json=broken))
        page.goto("/#/tasks")
        page.reload()
        expect(page.get_by_role("alert")).to_contain_text("It is being looked at.")
        page.unroute("**/users")
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_role("heading", name="Tasks", exact=True)).to_be_visible()

    def test_browsing_and_searching(self):
        word = name("zebra").replace("-", "")
        _, nodes = registry(26, description=f"Finds {word}s.", supported_os=["Linux"], supported_accelerators=["CUDA"])
        other, (lonely,) = registry(1, description=f"Loses {word}s.", supported_os=["Windows"])

        page = self.page("/nodes")
        page.get_by_label("Search nodes").fill(word)
        expect(page.get_by_text("27 nodes")).to_be_visible()
        page.get_by_role("checkbox", name="Linux").check()
        expect(page.get_by_text("26 nodes")).to_be_visible()
        page.get_by_role("link", name="Next page").click()
        expect(page.get_by_text("page 2 of 2")).to_be_visible()
        expect(page.locator(".node-card")).to_have_count(2)

        # The search is in the URL.
        page.reload()
        expect(page.locator(".node-card")).to_have_count(2)
        expect(page.get_by_label("Search nodes")).to_have_value(word)
        page.get_by_role("checkbox", name="Linux").uncheck()
        page.get_by_role("checkbox", name="Windows").check()
        expect(page.locator(".node-card")).to_have_count(1)
        page.get_by_label("Search nodes").fill(f"{word} nowhere")
        expect(page.get_by_role("heading", name="No matching nodes")).to_be_visible()
        page.go_back()

        page.goto(f"/#/nodes/{lonely}/install")
        expect(page.get_by_role("heading", name=lonely.title())).to_be_visible()
        expect(page.get_by_label("Download command", exact=True)).to_contain_text(f"/nodes/{lonely}/versions/1.0.0/download")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download 1.0.0").click()
        with open(download.value.path(), "rb") as file:
            self.assertEqual(file.read(), archive())
        page.get_by_role("link", name=other.title()).click()
        expect(page.get_by_role("heading", name=other.title())).to_be_visible()
        expect(page.get_by_role("link", name=lonely.title())).to_be_visible()

    def test_keys_lead_to_the_search_from_every_page(self):
        _, (node,) = registry()
        field = lambda: page.get_by_role("searchbox", name="Search nodes")
        for key in ("/", "Control+k"):
            page = self.page(f"/nodes/{node}")
            self.settle(page)
            page.keyboard.press(key)
            expect(field()).to_be_focused()
            # In the field, the slash is a character.
            page.keyboard.type("a/b")
            expect(field()).to_have_value("a/b")

    def test_typing_during_a_search_is_kept(self):
        page = self.page("/nodes")
        field = page.get_by_label("Search nodes")
        for gap in (215, 221, 227, 235):
            field.fill("")
            self.until(page, "!location.hash.includes('search')")
            page.evaluate("""gap => new Promise((done) => {
                const field = document.querySelector('input[type=search]');
                const letters = [...'abcdefgh'];
                const type = () => {
                    field.value += letters.shift();
                    field.dispatchEvent(new Event('input', { bubbles: true }));
                    setTimeout(letters.length ? type : done, gap);
                };
                type();
            })""", gap)
            self.until(page, "location.hash.endsWith('search=abcdefgh')")
            expect(field).to_have_value("abcdefgh")

    def test_a_page_change_scrolls_to_the_top(self):
        word = name("pages").replace("-", "")
        registry(30, description=word)
        page = self.page(f"/nodes?search={word}", size=NARROW)
        expect(page.locator(".node-card")).to_have_count(24)
        page.get_by_role("link", name="Next page").click()
        expect(page.locator(".node-card")).to_have_count(6)
        expect(page.get_by_role("region", name="Nodes found")).to_be_focused()
        expect(page.locator(".node-card").first).to_be_in_viewport()
        # A filter that leads back to the first page keeps the focus.
        page.get_by_role("checkbox", name="Linux").click()
        expect(page.get_by_role("heading", name="No matching nodes")).to_be_visible()
        expect(page.get_by_role("checkbox", name="Linux")).to_be_focused()

    def test_the_parts_of_a_node_are_one_page(self):
        _, (node,) = registry()
        page = self.page(f"/nodes/{node}")
        self.settle(page)
        requested_urls = []
        page.on("request", lambda request: requested_urls.append(request.url) if "/nodes/" in request.url else None)
        tab = page.get_by_role("link", name="Details")
        tab.click()
        expect(page.get_by_text("Created", exact=True)).to_be_visible()
        expect(tab).to_be_focused()
        self.assertEqual(requested_urls, [], "a change of the tab loads nothing")

    def test_the_readme_and_the_files_of_a_node_are_shown(self):
        publisher, (node,) = registry()
        readme = "# Face tools\n\nMends **faces**.\n\n<script>window.ran = true</script>\n"
        publish(publisher, node, "1.1.0", files={"README.md": readme, "node.py": "VALUE = 2\n", "model.bin": "\0"})
        page = self.page(f"/nodes/{node}")
        readme_element = page.locator(".readme")
        expect(readme_element.get_by_text("faces", exact=True)).to_be_visible()
        self.assertIsNone(page.evaluate("window.ran ?? null"))

        page.get_by_role("link", name="Files").click()
        page.get_by_role("button", name="node.py").click()
        expect(page.get_by_label("node.py", exact=True)).to_have_text("VALUE = 2\n")
        page.get_by_role("button", name="model.bin").click()
        expect(page.get_by_text("Not text: download the archive to see it.")).to_be_visible()
        page.get_by_label("Version").select_option("1.0.0")
        expect(page.get_by_text("1 file, 10 B")).to_be_visible()

        page.get_by_role("link", name="Versions").click()
        page.get_by_role("link", name="Changes since 1.0.0").click()
        expect(page.get_by_role("heading", name="Changes from 1.0.0 to 1.1.0")).to_be_visible()
        patch = page.get_by_label("Changes of node.py")
        expect(patch).to_contain_text("-VALUE = 1\n+VALUE = 2")
        expect(page.get_by_text("Not text.", exact=True)).to_be_visible()
        self.settle(page)

    def test_downloads_and_reviews_of_a_node_are_counted(self):
        _, (node,) = registry()
        send("GET", f"/nodes/{node}/install", token=None)
        send("POST", f"/nodes/{node}/reviews?star=4", {})
        wait_until(lambda: send("GET", f"/nodes/{node}/statistics")["downloads"] == 1)
        page = self.page(f"/nodes/{node}/about")
        expect(page.get_by_text("1 review", exact=True)).to_be_visible()
        chart = page.locator("figure", has_text="Downloads a day")
        chart.get_by_text("Table").click()
        expect(chart.get_by_role("row").last).to_contain_text("1")

    def test_a_node_has_a_badge(self):
        _, (node,) = registry()
        page = self.page(f"/nodes/{node}/install")
        badge = page.get_by_alt_text("Version 1.0.0")
        expect(badge).to_be_visible()
        wait_until(lambda: badge.evaluate("(it) => it.naturalWidth > 0"))

    def test_versions_without_an_archive_have_no_download(self):
        publisher, _ = registry(0)
        node = name("bare")
        send("POST", f"/publishers/{publisher}/nodes", {"id": node, "name": node.title(), "latest_version": {"version": "1.0.0"}})
        page = self.page(f"/nodes/{node}/install")
        expect(page.get_by_text("1.0.0 has no archive on this service")).to_be_visible()
        expect(page.get_by_label("Install request", exact=True)).to_be_visible()
        expect(page.get_by_label("Download command", exact=True)).to_have_count(0)

    def test_order_changes_the_list(self):
        word = name("order").replace("-", "")
        registry(3, description=word)
        page = self.page(f"/nodes?search={word}&sort=name")
        titles = lambda: page.locator(".node-card h2").all_inner_texts()
        expect(page.locator(".node-card")).to_have_count(3)
        self.assertEqual(titles(), sorted(titles()))
        page.goto(f"/#/nodes?search={word}&sort=name;desc")
        page.reload()
        expect(page.locator(".node-card")).to_have_count(3)
        self.assertEqual(titles(), sorted(titles(), reverse=True))

    def test_markdown_has_no_active_content(self):
        text = "\n".join([
            "Finds **zebras** in `frames`; see [the notes](https://notes.example/zebra) or [here](javascript:window.ran=1).", "",
            "| Model | Size |", "|---|---|", "| small | 40 MB |", "",
            "```sh", "zebra --all", "```", "", "1. Load", "2. Run", "", "> Needs a GPU.", "", "![Sample](https://notes.example/z.png)", "", "<b>not bold</b>",
        ])
        _, (node,) = registry(1, description=text)
        page = self.page(f"/nodes/{node}")
        markdown = page.locator(".markdown").first
        expect(markdown.locator("strong")).to_have_text("zebras")
        expect(markdown.get_by_role("cell", name="40 MB")).to_be_visible()
        expect(markdown.locator("pre")).to_have_text("zebra --all")
        expect(markdown.locator("ol li")).to_have_text(["Load", "Run"])
        expect(markdown.locator("blockquote")).to_have_text("Needs a GPU.")
        expect(markdown.get_by_text("<b>not bold</b>")).to_be_visible()
        # External pictures and other schemes are not loaded or linked.
        self.assertEqual(markdown.locator("a").evaluate_all("all => all.map(it => it.getAttribute('href'))"), ["https://notes.example/zebra", "https://notes.example/z.png"])
        self.assertEqual(markdown.locator("img, b").count(), 0)

    def test_a_description_nested_too_deeply_is_shown_as_text(self):
        for text in (">" * 900 + " deep", "- " * 450 + "deep"):
            _, (node,) = registry(1, description=text)
            expect(self.page(f"/nodes/{node}").locator(".markdown").first).to_contain_text("deep")

    def test_a_review_counts(self):
        _, (node,) = registry()
        page = self.page(f"/nodes/{node}", token=ADMIN)
        page.get_by_role("button", name="4 stars").click()
        expect(page.locator(".rating")).to_contain_text("4.0")

    def test_the_own_review_can_be_changed(self):
        # Given a node with a review by another user
        _, (node,) = registry()
        send("POST", f"/nodes/{node}/reviews?star=1")
        token = user("Rae")["token"]
        page = self.page(f"/nodes/{node}", token=token)
        review = page.get_by_role("group", name="Your review")
        pressed = review.locator("[aria-pressed=true]")
        # Then the page says that the own review is missing
        expect(review).to_contain_text("Not reviewed yet")
        expect(pressed).to_have_count(0)
        # And a new review is shown, also after a reload, until it is changed
        review.get_by_role("button", name="4 stars").click()
        expect(review).to_contain_text("You rated it 4 stars")
        page.reload()
        expect(pressed).to_have_accessible_name("4 stars")
        expect(review.locator(".lit")).to_have_count(4)
        review.get_by_role("button", name="2 stars").click()
        expect(pressed).to_have_accessible_name("2 stars")
        self.assertEqual(send("GET", f"/nodes/{node}/reviews/mine", token=token), {"star": 2})

    def test_anonymous_visitors_are_asked_to_sign_in_for_a_review(self):
        _, (node,) = registry()
        page = self.page(f"/nodes/{node}")
        page.get_by_role("button", name="Sign in to review").click()
        expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()

    def test_the_menu_is_folded_on_a_phone_and_fits(self):
        # Given an administrator, who has the longest menu, on a phone
        page = self.page("/nodes", token=ADMIN, size={"width": 360, "height": 740})
        menu, fold = page.get_by_role("navigation", name="Console"), page.get_by_role("button", name="Menu")
        expect(menu).to_have_count(0)
        # When it is opened by keyboard, then every page is in it and nothing is cut off
        fold.focus()
        page.keyboard.press("Enter")
        expect(fold).to_have_attribute("aria-expanded", "true")
        expect(menu.get_by_role("link")).to_have_count(11)
        wide = "[document.documentElement, document.getElementById('menu')].some(it => it.scrollWidth > it.clientWidth)"
        self.assertFalse(page.evaluate(wide))
        # And Escape and navigation close it
        page.keyboard.press("Escape")
        expect(menu).to_have_count(0)
        expect(fold).to_be_focused()
        fold.click()
        menu.get_by_role("link", name="Audit log").click()
        expect(page.get_by_role("heading", name="Audit log")).to_be_visible()
        expect(menu).to_have_count(0)

    def test_the_description_comes_first_on_every_screen(self):
        _, (node,) = registry(description="Finds faces.")
        for size in (WIDE, NARROW):
            page = self.page(f"/nodes/{node}", size=size)
            about, card, tabs = [page.locator(part).bounding_box() for part in (".lead-text", ".summary-card", ".tabs")]
            self.assertLess(about["y"], card["y"] + card["height"])
            self.assertLess(about["y"], tabs["y"])
            if size == NARROW:
                self.assertLessEqual(about["y"] + about["height"], card["y"])
                self.assertLessEqual(card["y"] + card["height"], tabs["y"])

    def test_keyboard_navigation_on_a_narrow_screen(self):
        _, (node,) = registry()
        page = self.page(f"/nodes?search={node}", size=NARROW)
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("main")).to_be_focused()
        link = page.get_by_role("link", name=node.title())
        for _ in range(20):
            page.keyboard.press("Tab")
            if link.evaluate("link => link === document.activeElement"):
                break
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=node.title())).to_be_visible()
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), NARROW["width"])

    def test_missing_resources_show_not_found(self):
        page = self.page("/nodes/no-such-node", allowed=(404,))
        expect(page.get_by_role("alert").first).to_contain_text("Not found")
        self.show(page, "/nowhere")
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        self.show(page, "/nodes?page=99")
        expect(page.get_by_role("heading", name="Page not found")).to_be_visible()


if __name__ == "__main__":
    unittest.main()
