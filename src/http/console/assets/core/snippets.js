// The request of a form as a program. Files are read by name, and the token comes from the environment.
import { FilePlaceholder, curl } from './curl.js';

// Serializes a JSON value as an expression of a language.
function literal(value, { text, words, file }, margin = '') {
  if (value instanceof FilePlaceholder) return file(value.name);
  if (typeof value === 'string') return text(value);
  if (value === null || typeof value !== 'object') return words[String(value)] ?? String(value);
  const inner = `${margin}  `;
  const [first, last] = Array.isArray(value) ? '[]' : '{}';
  const parts = Array.isArray(value) ? value.map((entry) => literal(entry, { text, words, file }, inner))
    : Object.entries(value).map(([name, entry]) => `${text(name)}: ${literal(entry, { text, words, file }, inner)}`);
  return parts.length ? `${first}\n${inner}${parts.join(`,\n${inner}`)}\n${margin}${last}` : first + last;
}

const hasFile = (value) => value instanceof FilePlaceholder || (typeof value === 'object' && value !== null && Object.values(value).some(hasFile));

const PYTHON = { text: JSON.stringify, words: { true: 'True', false: 'False', null: 'None' }, file: (name) => `picture(${JSON.stringify(name)})` };

function python(address, { json, form }) {
  const head = (modules) => `import ${modules.join(', ')}\n`;
  const headers = (type) => `{"Authorization": "Bearer " + os.environ["TOKEN"], "Content-Type": ${type}}`;
  const send = `with urllib.request.urlopen(request) as response:\n    for line in response:\n        print(line.decode())\n`;
  if (form) {
    return `${head(['os', 'urllib.request', 'uuid'])}
form = ${literal(form, PYTHON)}
boundary = uuid.uuid4().hex
part = '--{}\\r\\nContent-Disposition: form-data; name="{}"\\r\\n\\r\\n{}\\r\\n'
body = "".join(part.format(boundary, name, value) for name, value in form.items()) + f"--{boundary}--\\r\\n"
request = urllib.request.Request(${JSON.stringify(address)}, body.encode(), ${headers('"multipart/form-data; boundary=" + boundary')})
${send}`;
  }
  const picture = hasFile(json) ? `\ndef picture(name):\n    with open(name, "rb") as file:\n        return base64.b64encode(file.read()).decode()\n` : '';
  return `${head([...(picture ? ['base64'] : []), 'json', 'os', 'urllib.request'])}${picture}
body = ${literal(json, PYTHON)}
request = urllib.request.Request(${JSON.stringify(address)}, json.dumps(body).encode(), ${headers('"application/json"')})
${send}`;
}

const SCRIPT = { text: JSON.stringify, words: {}, file: (name) => `await picture(${JSON.stringify(name)})` };

function javascript(address, { json, form }) {
  const send = (headers, body) => `const response = await fetch(${JSON.stringify(address)}, {
  method: "POST",
  headers: { ${headers} },
  body: ${body},
});
console.log(await response.text());
`;
  const token = 'Authorization: `Bearer ${process.env.TOKEN}`';
  if (form) {
    return `const form = new FormData();
for (const [name, value] of Object.entries(${literal(form, SCRIPT)})) form.append(name, value);
${send(token, 'form')}`;
  }
  const picture = hasFile(json) ? 'import { readFile } from "node:fs/promises";\n\nconst picture = async (name) => (await readFile(name)).toString("base64");\n' : '';
  return `${picture}const body = ${literal(json, SCRIPT)};
${send(`${token}, "Content-Type": "application/json"`, 'JSON.stringify(body)')}`;
}

const RUST_ESCAPES = { '\\': '\\\\', '"': '\\"', '\n': '\\n', '\r': '\\r', '\t': '\\t' };
const rustText = (text) => `"${text.toWellFormed().replaceAll(/[\\"\p{Cc}]/gu, (letter) => RUST_ESCAPES[letter] ?? `\\u{${letter.codePointAt(0).toString(16)}}`)}"`;
const RUST = { text: rustText, words: {}, file: (name) => `picture(${rustText(name)})` };

function rust(address, { json, form }) {
  const usesFiles = !form && hasFile(json);
  const crates = [usesFiles && 'base64 = "0.22"', `reqwest = { version = "0.12", features = ["blocking", "${form ? 'multipart' : 'json'}"] }`, !form && 'serde_json = "1"'];
  const picture = usesFiles ? `use base64::{Engine as _, engine::general_purpose::STANDARD};

fn picture(name: &str) -> String {
    STANDARD.encode(std::fs::read(name).expect("the picture can be read"))
}

` : '';
  const parts = () => Object.entries(form).map(([name, value]) => `.text(${rustText(name)}, ${rustText(String(value))})`).join('\n        ');
  const body = form ? `let form = reqwest::blocking::multipart::Form::new()\n        ${parts()};` : `let body = serde_json::json!(${literal(json, RUST, '    ')});`;
  return `// Cargo.toml:
${crates.filter(Boolean).map((line) => `//   ${line}`).join('\n')}
${picture}fn main() -> Result<(), Box<dyn std::error::Error>> {
    ${body}
    let client = reqwest::blocking::Client::builder().timeout(None).build()?;
    let response = client
        .post(${rustText(address)})
        .bearer_auth(std::env::var("TOKEN")?)
        .${form ? 'multipart(form)' : 'json(&body)'}
        .send()?;
    println!("{}", response.text()?);
    Ok(())
}
`;
}

// Languages by name. Each function returns the program that sends `{ json }` or `{ form }` to an address.
export const LANGUAGES = { curl, Python: python, JavaScript: javascript, Rust: rust };
