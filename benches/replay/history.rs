//! Synthetic history of a service, event by event, as a registry and a gateway record it.

use std::collections::HashMap;

use mediary::domain::event::Event;
use mediary::domain::ids::{EventId, NodeId, PublisherId, TaskId, TokenId, UserId, VersionId};
use mediary::domain::image::{ImageFormat, ImageJob, ImageWork, Picture, PictureSource, UpscaleJob};
use mediary::domain::node::{NodeEvent, NodeFields, Stars};
use mediary::domain::publisher::{PublisherEvent, PublisherFields};
use mediary::domain::task::{Submission, TaskEvent, TaskWork};
use mediary::domain::token::{TokenEvent, TokenGrant, TokenSubject};
use mediary::domain::user::{NewUser, UserEvent};
use mediary::domain::value::{Digest, Label, Link, Name, Text, TextList, Timestamp};
use mediary::domain::version::{Archive, SemVer, VersionDraft, VersionFields, VersionStatus};
use mediary::events::envelope::{Actor, Append, CommandContext, NewEvent};
use mediary::events::stream::{StreamId, Version};
use uuid::Uuid;

const WORDS: [&str; 24] = [
    "image", "face", "mask", "upscale", "latent", "video", "audio", "prompt", "sampler", "loader", "control", "style",
    "depth", "pose", "tile", "blend", "noise", "color", "crop", "batch", "merge", "text", "model", "preview",
];
/// Number of events after which the next node is created.
const EVENTS_PER_NODE: u64 = 20;
const PUBLISHERS: u64 = 2_000;
const USERS: u64 = 5_000;
/// Number of publishers and tokens together; the numbers of tokens follow those of publishers.
const PUBLISHERS_AND_TOKENS: u64 = 5_000;

/// Endless, reproducible sequence of commits.
pub struct History {
    /// Current version of each stream.
    versions: HashMap<StreamId, u64>,
    rng_state: u64,
    /// Time of the last commit, in microseconds since 1970.
    now: i64,
    /// Number of users, publishers and tokens created so far.
    setup: u64,
    /// Number of versions of each node.
    nodes: Vec<u32>,
    /// Number of tasks submitted so far.
    tasks: u128,
    /// Number of events so far.
    events: u64,
    /// Commits that must follow the last one, in reverse order.
    pending: Vec<Append>,
}

impl History {
    pub fn new() -> Self {
        Self {
            versions: HashMap::new(),
            rng_state: 0x9e37_79b9_7f4a_7c15,
            now: 1_700_000_000_000_000,
            setup: 0,
            nodes: Vec::new(),
            tasks: 0,
            events: 0,
            pending: Vec::new(),
        }
    }

    /// Returns `true` if an operation has begun whose end is not recorded yet.
    pub fn has_unfinished_operation(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns a random number below `end` (xorshift64).
    fn draw(&mut self, end: u64) -> u64 {
        self.rng_state ^= self.rng_state << 13;
        self.rng_state ^= self.rng_state >> 7;
        self.rng_state ^= self.rng_state << 17;
        self.rng_state % end.max(1)
    }

    /// Returns a random number below `end`, small ones more often than large ones.
    fn draw_low(&mut self, end: u64) -> u64 {
        let low_end = self.draw(end) + 1;
        self.draw(low_end)
    }

    fn random_id(&mut self) -> u128 {
        u128::from(self.draw(u64::MAX)) << 64 | u128::from(self.draw(u64::MAX))
    }

    /// Returns a commit of these events, 150 ms after the last one.
    fn commit(&mut self, stream: StreamId, events: Vec<Event>) -> Append {
        self.now += 150_000;
        let version = self.versions.entry(stream.clone()).or_default();
        let expected = Version(*version);
        *version += events.len() as u64;
        self.events += events.len() as u64;
        let user = UserId(Uuid::from_u128(1 + u128::from(self.events) % u128::from(USERS)));
        let mut context = CommandContext::from_system(None, Timestamp::from_micros(self.now));
        context.actor = Actor::User(user);
        let events = events
            .into_iter()
            .map(|event| NewEvent { id: EventId(Uuid::from_u128(self.random_id())), event })
            .collect();
        Append { stream, expected, context, events, guards: Vec::new() }
    }

    fn node_commit(&mut self, node: u64, events: Vec<NodeEvent>) -> Append {
        let stream = StreamId::from(&node_id(node).key());
        self.commit(stream, events.into_iter().map(Event::from).collect())
    }

    /// Creates the next user, publisher or token, in this order.
    fn next_setup(&mut self) -> Append {
        let n = self.setup;
        self.setup += 1;
        if n < USERS {
            let id = UserId(Uuid::from_u128(1 + u128::from(n)));
            let event = NewUser { id, email: None, name: None, is_admin: false, is_approved: true };
            return self.commit(StreamId::from(&id), vec![UserEvent::UserCreated(event).into()]);
        }
        let n = n - USERS;
        if n < PUBLISHERS {
            let (id, owner) = (publisher(n), UserId(Uuid::from_u128(1 + u128::from(n))));
            let fields = PublisherFields {
                name: Some(Name::from_recorded(format!("Publisher number {n}"))),
                description: Some(Text::from_recorded(self.sentence(20))),
                ..PublisherFields::default()
            };
            let stream = StreamId::from(&id);
            return self.commit(stream, vec![PublisherEvent::PublisherCreated { id, owner, fields }.into()]);
        }
        let (id, mut secret) = (TokenId(Uuid::from_u128(u128::from(n) << 40)), [0; 32]);
        secret[..8].copy_from_slice(&n.to_le_bytes());
        let subject = TokenSubject::Publisher {
            publisher: publisher(n % PUBLISHERS),
            issued_by: UserId(Uuid::from_u128(1 + u128::from(n % PUBLISHERS))),
        };
        let name = Name::from_recorded("ci".to_owned());
        let grant = TokenGrant { id, subject, name, description: None, secret_hash: Digest(secret) };
        self.commit(StreamId::from(&id), vec![TokenEvent::TokenIssued(grant).into()])
    }

    /// Creates a node with its first version.
    fn new_node(&mut self) -> Append {
        let node = self.nodes.len() as u64;
        self.nodes.push(1);
        let publisher = publisher(self.draw(PUBLISHERS));
        let fields = self.fields(node);
        let version = self.draft(0);
        self.node_commit(
            node,
            vec![
                NodeEvent::NodeCreated { id: node_id(node), publisher, fields },
                NodeEvent::VersionReleased { version },
            ],
        )
    }

    /// Publishes a version of a random node, whose archive and activation follow.
    fn new_version(&mut self) -> Append {
        let node = self.draw(self.nodes.len() as u64);
        let at = usize::try_from(node).expect("few nodes");
        let minor = self.nodes[at];
        self.nodes[at] += 1;
        let version = self.draft(minor);
        let id = version.id;
        let mut digest = [0; 32];
        digest[..16].copy_from_slice(id.0.as_bytes());
        let archive = Archive { digest: Digest(digest), bytes: 40_000 };
        let published = self.node_commit(node, vec![NodeEvent::VersionPublished { version }]);
        let stored = vec![
            NodeEvent::ArchiveStored { version: id, archive },
            NodeEvent::VersionStatusChanged { id, status: VersionStatus::Active, reason: None },
        ];
        let stored = self.node_commit(node, stored);
        self.pending.push(stored);
        published
    }

    /// Submits a task, whose submission to the vendor, acceptance and completion follow.
    fn new_task(&mut self) -> Append {
        self.tasks += 1;
        let id = TaskId(Uuid::from_u128(self.tasks << 64 | 0xa));
        let picture = |n: u128| {
            let mut digest = [1; 32];
            digest[..16].copy_from_slice(&n.to_le_bytes());
            Picture { digest: Digest(digest), format: ImageFormat::Png, bytes: 90_000, width: 640, height: 480 }
        };
        let (input, output) = (picture(self.tasks), picture(self.tasks << 1));
        let job = ImageJob::Upscale(UpscaleJob {
            prompt: Some(Text::from_recorded(self.sentence(8))),
            ..UpscaleJob::default()
        });
        let owner = UserId(Uuid::from_u128(1 + u128::from(self.draw(USERS))));
        let work = TaskWork::Image(ImageWork {
            job,
            image: PictureSource::Stored(input),
            reference: None,
            seed: None,
            credits: 0,
        });
        let submission = Submission { task: id, owner: Some(owner), work, webhook: None, payers: None };
        let key = Text::from_recorded(format!("{:032x}-1", self.tasks));
        let reference = Text::from_recorded(format!("job-{:032x}", self.tasks));
        let stream = StreamId::from(&id);
        let submitted = self.commit(stream.clone(), vec![TaskEvent::TaskSubmitted(submission).into()]);
        let mut later_commits: Vec<Append> = [
            TaskEvent::SubmissionStarted { attempt: 1, key, vendor: None },
            TaskEvent::VendorAccepted { reference },
            TaskEvent::TaskCompleted { results: vec![output] },
        ]
        .into_iter()
        .map(|event| self.commit(stream.clone(), vec![event.into()]))
        .collect();
        later_commits.reverse();
        self.pending.append(&mut later_commits);
        submitted
    }

    /// Counts installs, reviews or revises a node, or uses a token.
    fn change(&mut self) -> Append {
        let count = self.nodes.len() as u64;
        match self.draw(400) {
            0..200 => {
                let (node, count) = (self.draw_low(count), 1 + self.draw(300));
                self.node_commit(node, vec![NodeEvent::DownloadsCounted { count }])
            }
            200..280 => {
                let (node, stars) = (self.draw_low(count), 1 + self.draw(5));
                let user = UserId(Uuid::from_u128(1 + u128::from(self.draw(USERS))));
                let stars = Stars::new(i64::try_from(stars).expect("at most five")).expect("one to five");
                self.node_commit(node, vec![NodeEvent::NodeReviewed { user, stars }])
            }
            280..350 => {
                let node = self.draw(count);
                let change =
                    NodeFields { description: Some(Text::from_recorded(self.sentence(24))), ..NodeFields::default() };
                self.node_commit(node, vec![NodeEvent::NodeRevised { change }])
            }
            _ => {
                let token = PUBLISHERS + self.draw(PUBLISHERS_AND_TOKENS - PUBLISHERS);
                let id = TokenId(Uuid::from_u128(u128::from(token) << 40));
                let at = Timestamp::from_micros(self.now);
                self.commit(StreamId::from(&id), vec![TokenEvent::TokenUsed { at }.into()])
            }
        }
    }

    fn fields(&mut self, node: u64) -> NodeFields {
        let seed = self.draw(1 << 32);
        let pick = |choices: &[&[&str]]| {
            let chosen = choices[usize::try_from(seed).expect("64 bits") % choices.len()];
            Some(text_list(chosen))
        };
        NodeFields {
            author: Some(Name::from_recorded(format!("Author {}", seed % 3_000))),
            banner_url: Some(Link::from_recorded(format!("https://pictures.example/banner-{node}.png"))),
            description: Some(Text::from_recorded(self.sentence(40))),
            icon: Some(Link::from_recorded(format!("https://pictures.example/icon-{node}.png"))),
            license: Some(Text::from_recorded("MIT".to_owned())),
            name: Some(Name::from_recorded(self.sentence(3))),
            repository: Some(Link::from_recorded(format!("https://code.example/author/node-{node}"))),
            supported_accelerators: pick(&[&["CUDA"], &["CUDA", "ROCm"], &[]]),
            supported_host_version: Some(Label::from_recorded(">=1.2, <2".to_owned())),
            supported_os: pick(&[&["Linux"], &["Windows", "Linux"], &["Windows"], &[], &["macOS", "Linux"]]),
            tags: Some(text_list(&[self.word(), self.word()])),
            ..NodeFields::default()
        }
    }

    fn draft(&mut self, minor: u32) -> VersionDraft {
        let id = self.random_id();
        let fields = VersionFields {
            changelog: Some(Text::from_recorded(self.sentence(30))),
            dependencies: Some(text_list(&["numpy>=1.26", "pillow", "opencv-python"])),
            ..VersionFields::default()
        };
        let version = SemVer::parse(&format!("1.{minor}.0")).expect("a version");
        VersionDraft { id: VersionId(Uuid::from_u128(id)), number: version, fields }
    }

    fn word(&mut self) -> &'static str {
        WORDS[usize::try_from(self.draw(24)).expect("few words")]
    }

    /// Returns a text of `word_count` words, some common and some in few nodes only.
    fn sentence(&mut self, word_count: u32) -> String {
        let word_at = |at: u32| {
            if at % 3 == 2 { format!("w{}", self.draw(20_000)) } else { self.word().to_owned() }
        };
        (0..word_count).map(word_at).collect::<Vec<_>>().join(" ")
    }
}

impl Iterator for History {
    type Item = Append;

    /// Of 1,000 events about 100 are new nodes, 450 versions, 160 tasks, 130 counted installs, 50 reviews, 45 revisions
    /// and 35 uses of tokens.
    fn next(&mut self) -> Option<Append> {
        if let Some(next) = self.pending.pop() {
            return Some(next);
        }
        if self.setup < USERS + PUBLISHERS_AND_TOKENS {
            return Some(self.next_setup());
        }
        if (self.nodes.len() as u64) * EVENTS_PER_NODE <= self.events - self.setup {
            return Some(self.new_node());
        }
        Some(match self.draw(100) {
            0..30 => self.new_version(),
            30..38 => self.new_task(),
            _ => self.change(),
        })
    }
}

fn node_id(n: u64) -> NodeId {
    NodeId::parse(&format!("node-{n}")).expect("an id")
}

fn publisher(n: u64) -> PublisherId {
    PublisherId::parse(&format!("publisher-{n}")).expect("an id")
}

fn text_list<const ENTRIES: usize, const CHARS: usize>(texts: &[&str]) -> TextList<ENTRIES, CHARS> {
    TextList::from_recorded(texts.iter().map(|text| (*text).to_owned()).collect())
}
