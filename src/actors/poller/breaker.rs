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
    /// Consecutive failures that open the breaker.
    pub failures: u32,
    /// Pause after the breaker opens first.
    pub pause: Duration,
    /// Maximum pause. Each pause is twice as long as the previous one, up to this maximum.
    pub pause_max: Duration,
}

/// Decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Allow,
    /// The call is the probe that shows whether the vendor has recovered.
    Probe,
    /// No call before this time has passed.
    Wait(Duration),
}

/// Observable state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    Closed,
    Open,
    HalfOpen,
    /// The vendor has not failed, but asked for a pause.
    Held,
}

impl CircuitState {
    /// Names of all states.
    pub const NAMES: [&'static str; 4] = ["closed", "open", "half_open", "held"];

    /// Returns the name of the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerState {
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
pub struct CircuitBreaker {
    options: BreakerOptions,
    state: BreakerState,
    /// End of the pause that the vendor asked for.
    held_until: Option<Timestamp>,
}

impl CircuitBreaker {
    /// Returns a closed breaker.
    #[must_use]
    pub const fn new(options: BreakerOptions) -> Self {
        Self { options, state: BreakerState::Closed { failures: 0 }, held_until: None }
    }

    /// Decides whether a call may be made now. An admitted probe makes the breaker half open.
    pub fn admit(&mut self, now: Timestamp) -> Admission {
        if let Some(wait) = self.held_until.and_then(|until| time_until(until, now)) {
            return Admission::Wait(wait);
        }

        match self.state {
            BreakerState::Closed { .. } => Admission::Allow,
            BreakerState::Open { until, openings } | BreakerState::HalfOpen { until, openings } => {
                if let Some(wait) = time_until(until, now) {
                    return Admission::Wait(wait);
                }
                self.state = BreakerState::HalfOpen { until: now.saturating_add(self.options.pause), openings };
                Admission::Probe
            }
        }
    }

    /// Returns the time for which no call is admitted; `None` if [`CircuitBreaker::admit`] would admit one now.
    #[must_use]
    pub fn time_until_admission(&self, now: Timestamp) -> Option<Duration> {
        let held = self.held_until.and_then(|until| time_until(until, now));
        let paused = match self.state {
            BreakerState::Closed { .. } => None,
            BreakerState::Open { until, .. } | BreakerState::HalfOpen { until, .. } => time_until(until, now),
        };
        held.max(paused)
    }

    /// Records a successful call. Returns `true` if the breaker was not closed before.
    pub fn record_success(&mut self) -> bool {
        let was_open = !matches!(self.state, BreakerState::Closed { .. });
        self.state = BreakerState::Closed { failures: 0 };
        was_open
    }

    /// Records a failed call of a faulty vendor. Returns `true` if the breaker opens. Failures of calls that were in
    /// progress when it opened are ignored.
    pub fn record_failure(&mut self, now: Timestamp) -> bool {
        let openings = match self.state {
            BreakerState::Open { .. } => return false,
            BreakerState::HalfOpen { openings, .. } => openings,
            BreakerState::Closed { failures } => {
                let failures = failures.saturating_add(1);
                if failures < self.options.failures {
                    self.state = BreakerState::Closed { failures };
                    return false;
                }
                0
            }
        };

        let BreakerOptions { pause, pause_max, .. } = self.options;
        // The limit of 16 only prevents an overflow of the shift.
        let pause = pause.saturating_mul(1 << openings.min(16)).min(pause_max);
        self.state = BreakerState::Open { until: now.saturating_add(pause), openings: openings + 1 };
        true
    }

    /// Ends a probe without an outcome; the next call becomes the probe. If a lost probe returns late, this only causes
    /// one extra probe.
    pub fn release_probe(&mut self, now: Timestamp) {
        if let BreakerState::HalfOpen { openings, .. } = self.state {
            self.state = BreakerState::Open { until: now, openings };
        }
    }

    /// Pauses calls for `pause`, as the vendor asked. A longer pause in progress is not shortened.
    pub fn hold(&mut self, now: Timestamp, pause: Duration) {
        self.held_until = self.held_until.max(Some(now.saturating_add(pause)));
    }

    /// Returns the observable state.
    #[must_use]
    pub fn circuit(&self, now: Timestamp) -> CircuitState {
        match self.state {
            BreakerState::Closed { .. } if self.held_until.is_some_and(|until| now < until) => CircuitState::Held,
            BreakerState::Closed { .. } => CircuitState::Closed,
            BreakerState::Open { .. } => CircuitState::Open,
            BreakerState::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }
}

/// Returns the time left until `until`; `None` if it has passed.
fn time_until(until: Timestamp, now: Timestamp) -> Option<Duration> {
    (now < until).then(|| until.since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(0).saturating_add(Duration::from_secs(seconds))
    }

    fn breaker() -> CircuitBreaker {
        CircuitBreaker::new(BreakerOptions { failures: 3, pause: PAUSE, pause_max: PAUSE * 3 })
    }

    fn opened() -> CircuitBreaker {
        let mut breaker = breaker();
        let opened = [(); 3].map(|()| breaker.record_failure(at(0)));
        assert_eq!((opened, breaker.circuit(at(0))), ([false, false, true], CircuitState::Open));
        breaker
    }

    #[test]
    fn only_consecutive_failures_open_the_breaker() {
        let mut breaker = breaker();
        for _ in 0..10 {
            assert!(!breaker.record_failure(at(0)) && !breaker.record_failure(at(0)), "opened by two failures");
            assert!(!breaker.record_success(), "the breaker was not closed");
        }
        assert_eq!(breaker.admit(at(0)), Admission::Allow);
    }

    #[test]
    fn an_open_breaker_admits_one_call_after_its_pause() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(at(29)), Admission::Wait(Duration::from_secs(1)));
        assert_eq!(breaker.admit(at(30)), Admission::Probe);
        assert_eq!(
            (breaker.circuit(at(31)), breaker.admit(at(31))),
            (CircuitState::HalfOpen, Admission::Wait(Duration::from_secs(29)))
        );
        assert!(breaker.record_success());
        assert_eq!((breaker.circuit(at(31)), breaker.admit(at(31))), (CircuitState::Closed, Admission::Allow));
    }

    #[test]
    fn each_failed_probe_doubles_the_pause_up_to_the_maximum() {
        let mut breaker = opened();
        let mut now = 30;
        for pause in [60, 90, 90] {
            assert_eq!(breaker.admit(at(now)), Admission::Probe);
            assert!(breaker.record_failure(at(now)));
            assert_eq!(breaker.admit(at(now)), Admission::Wait(Duration::from_secs(pause)));
            now += pause;
        }
        assert!(breaker.admit(at(now)) == Admission::Probe && breaker.record_success());
        assert!(!breaker.record_failure(at(now)), "the count of failures starts again");
    }

    #[test]
    fn late_failures_of_older_calls_change_nothing_and_a_success_closes() {
        let mut breaker = opened();
        assert!(!breaker.record_failure(at(20)), "opened twice");
        assert_eq!(breaker.admit(at(30)), Admission::Probe);

        let mut breaker = opened();
        assert!(breaker.record_success());
        assert_eq!(breaker.admit(at(1)), Admission::Allow);
    }

    #[test]
    fn a_probe_without_an_outcome_is_considered_lost() {
        let mut breaker = opened();
        assert_eq!((breaker.admit(at(30)), breaker.admit(at(60))), (Admission::Probe, Admission::Probe));
    }

    #[test]
    fn a_released_probe_is_available_to_the_next_caller_without_a_pause() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(at(30)), Admission::Probe);
        breaker.release_probe(at(31));
        assert_eq!((breaker.circuit(at(31)), breaker.admit(at(31))), (CircuitState::Open, Admission::Probe));
        assert!(breaker.record_failure(at(31)), "the failed probe opens the breaker");
        assert_eq!(breaker.admit(at(31)), Admission::Wait(PAUSE * 2), "as long as after the first probe");

        // Without a probe in progress, `release_probe` changes nothing
        breaker.release_probe(at(40));
        assert_eq!(breaker.admit(at(40)), Admission::Wait(Duration::from_secs(51)));
        assert!(breaker.record_success());
        breaker.release_probe(at(41));
        assert_eq!((breaker.circuit(at(41)), breaker.admit(at(41))), (CircuitState::Closed, Admission::Allow));
    }

    #[test]
    fn a_pause_that_the_vendor_asks_for_holds_in_every_state() {
        for mut breaker in [breaker(), opened()] {
            let expected =
                if breaker.circuit(at(0)) == CircuitState::Closed { CircuitState::Held } else { CircuitState::Open };
            breaker.hold(at(0), PAUSE * 4);
            breaker.hold(at(0), PAUSE);
            assert_eq!(breaker.admit(at(100)), Admission::Wait(Duration::from_secs(20)));
            assert_eq!(breaker.circuit(at(100)), expected);
            assert_ne!(breaker.circuit(at(120)), CircuitState::Held);
            assert!(!matches!(breaker.admit(at(120)), Admission::Wait(_)));
        }
    }
}
