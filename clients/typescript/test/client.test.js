// The packed client against a running service.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { deflateSync, crc32 } from "node:zlib";
import { Mediary, ServiceError, TaskFailed, hasSucceeded, verifyWebhook } from "mediary-client";

const url = process.env.MEDIARY_URL;

async function call(method, path, token, body) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const response = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(response.ok, `${method} ${path}: ${response.status}`);
  return response.json();
}

/** Creates a user, and returns a token. */
async function newToken() {
  const administrator = process.env.MEDIARY_ADMIN_TOKEN;
  const user = { name: "Ada", email: `${crypto.randomUUID()}@acme.example`, isApproved: true };
  const { id } = await call("POST", "/admin/users", administrator, user);
  return (await call("POST", `/admin/users/${id}/tokens`, administrator, { name: "test" })).token;
}

/** A PNG of 16 x 16 pixels. */
function picture() {
  const part = (kind, data) => {
    const content = Buffer.concat([Buffer.from(kind), data]);
    const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    check.writeUInt32BE(crc32(content));
    return Buffer.concat([length, content, check]);
  };
  const header = Buffer.from([0, 0, 0, 16, 0, 0, 0, 16, 8, 2, 0, 0, 0]);
  const row = Buffer.concat([Buffer.from([0]), Buffer.alloc(48, 0x80)]);
  const rows = deflateSync(Buffer.concat(Array(16).fill(row)));
  const signature = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
  const parts = [part("IHDR", header), part("IDAT", rows), part("IEND", Buffer.alloc(0))];
  return new Uint8Array(Buffer.concat([signature, ...parts]));
}

/** Passes each request with its body to `handle` while `use` runs with the URL. */
async function withServer(handle, use) {
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await collect(request));
    handle(request, body, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(`http://127.0.0.1:${server.address().port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

test("an image job runs, and its result is downloaded", async () => {
  const service = new Mediary(url, { token: await newToken() });
  const task = await service.run("image-upscaler", { image: new Blob([picture()]), scale_factor: "2x" });
  assert.ok(hasSucceeded(task) && task.progress === 1);
  const result = Buffer.from(await (await service.result(task)).arrayBuffer());
  assert.equal(result.readUInt32BE(16), 32);
});

test("each change of a task is yielded", async () => {
  const service = new Mediary(url, { token: await newToken() });
  const { task_id } = await service.submit("skin-enhancer/faithful", { image: picture() });
  const states = [];
  for await (const task of service.follow(task_id)) states.push(task.state);
  assert.equal(states.at(-1), "COMPLETED");
  assert.ok(!states.slice(0, -1).includes("COMPLETED"));
});

test("a cancelled task fails", async () => {
  const service = new Mediary(url, { token: await newToken() });
  const task = await service.submit("reference2video", { images: [picture()], prompt: "waves", duration: 8 });
  await service.cancel(task.task_id);
  await assert.rejects(service.wait(task.task_id), (error) => error instanceof TaskFailed && error.code === "cancelled");
});

test("every invalid field is named", async () => {
  const service = new Mediary(url, { token: await newToken() });
  const submitted = service.submit("image-upscaler", { image: picture(), scale_factor: "3x", creativity: 99 });
  await assert.rejects(submitted, (error) => {
    assert.ok(error instanceof ServiceError && error.status === 400 && error.code === "invalid_input");
    const values = Object.fromEntries(error.fields.map(({ pointer, value }) => [pointer, value]));
    assert.deepEqual(values, { "/creativity": 99, "/scale_factor": "3x" });
    return true;
  });
  await assert.rejects(service.submit("image-upscale", {}), /the jobs are image-upscaler/);
});

test("a misspelled parameter is refused before anything is sent", async () => {
  const service = new Mediary(url, { token: await newToken() });
  const submitted = service.submit("image-upscaler", { image: picture(), scale_facter: "4x" });
  await assert.rejects(submitted, /^TypeError: image-upscaler has no parameter scale_facter; its parameters are .*image$/);
  // Names in lists and objects are checked too, and those that an object inherits are not known.
  const frames = [{ key_image: picture() }, { key_picture: picture() }];
  const nested = service.submit("multiframe", { image_settings: frames });
  await assert.rejects(nested, /^TypeError: multiframe has no parameter key_picture in image_settings; its parameters are .*key_image/);
  await assert.rejects(service.submit("image-upscaler", { image: picture(), toString: "x" }), /has no parameter toString/);
});

test("music is received while it is made", async () => {
  const service = new Mediary(url, { token: await newToken() });
  const music = await service.stream("calm solo piano", { duration: 5 });
  const chunks = await collect(music);
  assert.equal(Buffer.from(chunks[0]).subarray(0, 4).toString(), "OggS");
  assert.ok(chunks.length > 4 && music.seconds === 5 && music.title !== "");
  assert.ok(hasSucceeded(await service.task(music.taskId)));
});

test("a version is published", async () => {
  const token = await newToken();
  const service = new Mediary(url, { token });
  const publisher = `p${crypto.randomUUID().slice(0, 8)}`;
  await call("POST", "/publishers", token, { id: publisher, name: "Acme" });
  // A zip archive with an empty file.
  const zip = "UEsDBBQAAAAAAAAAIQAAAAAAAAAAAAAAAAAEAAAAYS5weVBLAQIUAxQAAAAAAAAAIQAAAAAAAAAAAAAAAAAEAAAAAAAAAAAAAACAAQAAAABhLnB5UEsFBgAAAAABAAEAMgAAACIAAAAAAA==";
  const archive = new Uint8Array(Buffer.from(zip, "base64"));
  const node = `${publisher}-tools`;
  const version = await service.publish(publisher, node, "1.0.0", archive, { changelog: "First" });
  assert.deepEqual([version.version, version.changelog], ["1.0.0", "First"]);
  await assert.rejects(service.publish(publisher, node, "1.0.0", archive), { code: "already_exists" });

  // A version whose archive was not uploaded is continued.
  const path = `/publishers/${publisher}/nodes/${node}/versions`;
  await call("POST", path, token, { node_version: { version: "1.1.0" } });
  assert.equal((await service.publish(publisher, node, "1.1.0", archive)).version, "1.1.0");
});

test("webhooks are verified with both keys", async () => {
  const token = await newToken();
  const service = new Mediary(url, { token });
  const { secret } = await call("POST", "/users/webhook-secret", token);
  const key = await (await fetch(`${url}/.well-known/webhook-key`)).text();
  let receive;
  const received = new Promise((resolve) => (receive = resolve));
  const handle = (request, body, response) => {
    receive({ headers: request.headers, body });
    response.end();
  };
  await withServer(handle, async (receiver) => {
    await service.run("image-upscaler", { image: picture(), webhook_url: `${receiver}/hook` });
    const { headers, body } = await received;
    for (const either of [secret, key]) {
      assert.ok(await verifyWebhook(headers, body, either));
      assert.ok(!(await verifyWebhook(headers, Buffer.concat([body, Buffer.from(" ")]), either)));
      assert.ok(!(await verifyWebhook({ ...headers, "webhook-timestamp": "1" }, body, either)));
      assert.ok(!(await verifyWebhook({}, body, either)));
    }
    assert.ok(!(await verifyWebhook(headers, body, `whsec_${"A".repeat(43)}=`)));
    await assert.rejects(verifyWebhook(headers, body, "secret"), TypeError);
  });
});

test("a busy service is asked again with the same key", async () => {
  const keys = [];
  const handle = (request, _body, response) => {
    keys.push(request.headers["idempotency-key"]);
    if (keys.length < 3) response.writeHead(503, { "Retry-After": "0" }).end('{"error": "overloaded"}');
    // Uploads are sent once, and this one has no place to go.
    else response.end('{"upload_url": "http://127.0.0.1:9/", "url": "input"}');
  };
  await withServer(handle, async (busy) => {
    await assert.rejects(new Mediary(busy).upload(picture()));
  });
  assert.equal(keys.length, 3);
  assert.ok(keys[0] && new Set(keys).size === 1);
});
