//! Rate limiting with the generic cell rate algorithm (GCRA): a token bucket whose state is a single time. Pure; the
//! caller passes the time.

/// Rate limit with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Microseconds per request at the sustained rate.
    interval: i64,
    /// Maximum number of requests at once.
    burst: i64,
}

/// Result of a rate limit check; times in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateDecision {
    /// Time until the request is allowed; `None` if it is allowed and counted.
    pub retry_after: Option<i64>,
    /// Requests that remain of the burst.
    pub remaining: i64,
    /// Time until the whole burst is available again.
    pub reset_after: i64,
}

const MINUTE_MICROS: i64 = 60_000_000;

impl Rate {
    /// Creates a limit of `per_minute` requests with a burst; `None` if `per_minute` is 0 (unlimited).
    #[must_use]
    pub fn new(per_minute: u32, burst: u32) -> Option<Self> {
        let interval = MINUTE_MICROS.checked_div(i64::from(per_minute))?.max(1);
        Some(Self { interval, burst: i64::from(burst.max(1)) })
    }

    /// Returns the maximum number of requests at once.
    #[must_use]
    pub fn burst(&self) -> i64 {
        self.burst
    }

    /// Returns the time in microseconds in which a used burst is restored.
    #[must_use]
    pub fn window(&self) -> i64 {
        self.interval.saturating_mul(self.burst)
    }

    /// Checks a request at `now` and counts it if it is allowed. `reset_at`, the time at which the caller's burst is
    /// full again, then moves forward. A value too far in the future means that the clock was set back, and is clamped.
    pub fn check(&self, reset_at: &mut i64, now: i64) -> RateDecision {
        let window = self.window();
        let used = reset_at.saturating_sub(now).clamp(0, window);
        let used_after = used + self.interval;
        let (used, retry_after) =
            if used_after <= window { (used_after, None) } else { (used, Some(used_after - window)) };
        *reset_at = now.saturating_add(used);
        RateDecision { retry_after, remaining: (window - used) / self.interval, reset_after: used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    /// 60 a minute, burst of 3.
    fn rate() -> Rate {
        Rate::new(60, 3).unwrap()
    }

    #[test]
    fn a_burst_is_admitted_and_then_the_rate_applies() {
        let rate = rate();
        let mut reset_at = 0;
        let remaining: Vec<_> =
            (0..3).map(|_| rate.check(&mut reset_at, SECOND)).map(|decision| decision.remaining).collect();
        assert_eq!(remaining, [2, 1, 0]);
        let decision = rate.check(&mut reset_at, SECOND);
        assert_eq!(decision, RateDecision { retry_after: Some(SECOND), remaining: 0, reset_after: 3 * SECOND });
        // Rejected requests are not counted: after the wait exactly one more is allowed.
        assert_eq!(rate.check(&mut reset_at, 2 * SECOND - 1).retry_after, Some(1));
        assert_eq!(rate.check(&mut reset_at, 2 * SECOND).retry_after, None);
        assert_eq!(rate.check(&mut reset_at, 2 * SECOND).retry_after, Some(SECOND));
    }

    #[test]
    fn the_burst_refills_up_to_its_size() {
        let rate = rate();
        let mut reset_at = 0;
        while rate.check(&mut reset_at, 0).retry_after.is_none() {}
        assert_eq!(
            rate.check(&mut reset_at, 100 * SECOND),
            RateDecision { retry_after: None, remaining: 2, reset_after: SECOND }
        );
    }

    #[test]
    fn the_long_term_rate_is_exact() {
        let rate = Rate::new(600, 10).unwrap();
        let mut reset_at = 0;
        let allowed = (0..60 * 1000).filter(|millis| rate.check(&mut reset_at, millis * 1000).retry_after.is_none());
        assert_eq!(allowed.count(), 10 + 599, "the burst, and then one request every 100 ms");
    }

    #[test]
    fn a_clock_set_back_does_not_block_callers() {
        let rate = rate();
        let mut reset_at = 3600 * SECOND;
        assert_eq!(rate.check(&mut reset_at, 0).retry_after, Some(SECOND));
        assert_eq!(rate.check(&mut reset_at, SECOND).retry_after, None);
    }

    #[test]
    fn a_rate_of_zero_means_no_limit() {
        assert_eq!(Rate::new(0, 5), None);
        assert_eq!(Rate::new(u32::MAX, 0).unwrap().window(), 1);
    }
}
