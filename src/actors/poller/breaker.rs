//! Circuit breaker of a vendor: after repeated failures calls are paused, then a single one probes the vendor. A pure
//! state machine; callers pass the time.
//!
//! ```text
//!            failures in a row              pause over: one call may try
//!   closed ───────────────────▶ open ─────────────────────────────▶ half open
//!     ▲                          ▲        it failed: twice the pause    │
//!     │                          └──────────────────────────────────────┤
//!     └──────────────────────────────── a call succeeded ───────────────┘
//! ```

use std::time::Duration;

use crate::domain::value::Timestamp;

/// Options of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerOptions {
    /// Consecutive failures that open it.
    pub failures: u32,
    /// Duration of the first opening.
    pub pause: Duration,
    /// Longest pause; until then each is twice the previous one.
    pub pause_max: Duration,
}

/// Decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Go,
    /// The call is the probe that shows whether the vendor has recovered.
    Probe,
    /// No call before this time has passed.
    Wait(Duration),
}

/// Observable state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circuit {
    Closed,
    Open,
    HalfOpen,
    /// The vendor has not failed, but asked for a pause.
    Held,
}

impl Circuit {
    /// Names of all states.
    pub const NAMES: [&'static str; 4] = ["closed", "open", "half_open", "held"];

    /// Returns the name of the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Timestamp,
        openings: u32,
    },
    /// A probe is in progress; it is considered lost at `until`.
    HalfOpen {
        until: Timestamp,
        openings: u32,
    },
}

/// Circuit breaker of one vendor.
#[derive(Debug, Clone)]
pub struct Breaker {
    options: BreakerOptions,
    state: State,
    /// End of the pause that the vendor asked for.
    held_until: Option<Timestamp>,
}

impl Breaker {
    /// Returns a closed breaker.
    #[must_use]
    pub const fn new(options: BreakerOptions) -> Self {
        Self { options, state: State::Closed { failures: 0 }, held_until: None }
    }

    /// Decides whether a call may be made now.
    pub fn admit(&mut self, now: Timestamp) -> Admission {
        if let Some(wait) = self.held_until.and_then(|until| left(until, now)) {
            return Admission::Wait(wait);
        }

        match self.state {
            State::Closed { .. } => Admission::Go,
            State::Open { until, openings } | State::HalfOpen { until, openings } => {
                if let Some(wait) = left(until, now) {
                    return Admission::Wait(wait);
                }
                self.state = State::HalfOpen { until: now.after(self.options.pause), openings };
                Admission::Probe
            }
        }
    }

    /// Records a successful call. Returns `true` if the breaker was not closed before.
    pub fn succeeded(&mut self) -> bool {
        let closes = !matches!(self.state, State::Closed { .. });
        self.state = State::Closed { failures: 0 };
        closes
    }

    /// Records a failed call of a faulty vendor. Returns `true` if the breaker opens. Failures of calls that were in
    /// progress when it opened are ignored.
    pub fn failed(&mut self, now: Timestamp) -> bool {
        let openings = match self.state {
            State::Open { .. } => return false,
            State::HalfOpen { openings, .. } => openings,
            State::Closed { failures } => {
                let failures = failures.saturating_add(1);
                if failures < self.options.failures {
                    self.state = State::Closed { failures };
                    return false;
                }
                0
            }
        };

        let BreakerOptions { pause, pause_max, .. } = self.options;
        let pause = pause.saturating_mul(1 << openings.min(16)).min(pause_max);
        self.state = State::Open { until: now.after(pause), openings: openings + 1 };
        true
    }

    /// Ends a probe without an outcome; the next call becomes the probe. If a lost probe returns late, this only causes
    /// one extra probe.
    pub fn give_back(&mut self, now: Timestamp) {
        if let State::HalfOpen { openings, .. } = self.state {
            self.state = State::Open { until: now, openings };
        }
    }

    /// Pauses calls for as long as the vendor asked.
    pub fn hold(&mut self, now: Timestamp, pause: Duration) {
        self.held_until = self.held_until.max(Some(now.after(pause)));
    }

    /// Returns the observable state.
    #[must_use]
    pub fn circuit(&self, now: Timestamp) -> Circuit {
        match self.state {
            State::Closed { .. } if self.held_until.is_some_and(|until| now < until) => Circuit::Held,
            State::Closed { .. } => Circuit::Closed,
            State::Open { .. } => Circuit::Open,
            State::HalfOpen { .. } => Circuit::HalfOpen,
        }
    }
}

/// Returns the time left until `until`; `None` if it has passed.
fn left(until: Timestamp, now: Timestamp) -> Option<Duration> {
    (now < until).then(|| until.since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(0).after(Duration::from_secs(seconds))
    }

    fn breaker() -> Breaker {
        Breaker::new(BreakerOptions { failures: 3, pause: PAUSE, pause_max: PAUSE * 3 })
    }

    fn opened() -> Breaker {
        let mut breaker = breaker();
        let opens = [(); 3].map(|()| breaker.failed(at(0)));
        assert_eq!((opens, breaker.circuit(at(0))), ([false, false, true], Circuit::Open));
        breaker
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let mut breaker = breaker();
        for _ in 0..10 {
            assert!(!breaker.failed(at(0)) && !breaker.failed(at(0)));
            assert!(!breaker.succeeded());
        }
        assert_eq!(breaker.admit(at(0)), Admission::Go);
    }

    #[test]
    fn an_open_one_lets_one_call_through_after_its_pause() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(at(29)), Admission::Wait(Duration::from_secs(1)));
        assert_eq!(breaker.admit(at(30)), Admission::Probe);
        assert_eq!(
            (breaker.circuit(at(31)), breaker.admit(at(31))),
            (Circuit::HalfOpen, Admission::Wait(PAUSE * 29 / 30))
        );
        assert!(breaker.succeeded());
        assert_eq!((breaker.circuit(at(31)), breaker.admit(at(31))), (Circuit::Closed, Admission::Go));
    }

    #[test]
    fn each_failed_probe_doubles_the_pause_up_to_the_longest() {
        let mut breaker = opened();
        let mut now = 30;
        for pause in [60, 90, 90] {
            assert_eq!(breaker.admit(at(now)), Admission::Probe);
            assert!(breaker.failed(at(now)));
            assert_eq!(breaker.admit(at(now)), Admission::Wait(Duration::from_secs(pause)));
            now += pause;
        }
        assert!(breaker.admit(at(now)) == Admission::Probe && breaker.succeeded());
        assert!(!breaker.failed(at(now)), "it begins anew");
    }

    #[test]
    fn late_failures_of_older_calls_change_nothing_and_a_success_closes() {
        let mut breaker = opened();
        assert!(!breaker.failed(at(20)));
        assert_eq!(breaker.admit(at(30)), Admission::Probe);
        let mut breaker = opened();
        assert!(breaker.succeeded());
        assert_eq!(breaker.admit(at(1)), Admission::Go);
    }

    #[test]
    fn a_probe_that_never_ends_is_given_up() {
        let mut breaker = opened();
        assert_eq!((breaker.admit(at(30)), breaker.admit(at(60))), (Admission::Probe, Admission::Probe));
    }

    #[test]
    fn a_probe_that_is_given_back_is_there_for_the_next_and_costs_no_pause() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(at(30)), Admission::Probe);
        breaker.give_back(at(31));
        assert_eq!((breaker.circuit(at(31)), breaker.admit(at(31))), (Circuit::Open, Admission::Probe));
        assert!(breaker.failed(at(31)));
        assert_eq!(breaker.admit(at(31)), Admission::Wait(PAUSE * 2), "as long as after the first probe");
        // Without a probe in progress, `give_back` changes nothing
        breaker.give_back(at(40));
        assert_eq!(breaker.admit(at(40)), Admission::Wait(Duration::from_secs(51)));
        assert!(breaker.succeeded());
        breaker.give_back(at(41));
        assert_eq!((breaker.circuit(at(41)), breaker.admit(at(41))), (Circuit::Closed, Admission::Go));
    }

    #[test]
    fn a_vendor_that_asks_for_it_is_left_alone_in_every_state() {
        for mut breaker in [breaker(), opened()] {
            let shown = if breaker.circuit(at(0)) == Circuit::Closed { Circuit::Held } else { Circuit::Open };
            breaker.hold(at(0), PAUSE * 4);
            breaker.hold(at(0), PAUSE);
            assert_eq!(breaker.admit(at(100)), Admission::Wait(Duration::from_secs(20)));
            assert_eq!(breaker.circuit(at(100)), shown);
            assert_ne!(breaker.circuit(at(120)), Circuit::Held);
            assert!(!matches!(breaker.admit(at(120)), Admission::Wait(_)));
        }
    }
}
