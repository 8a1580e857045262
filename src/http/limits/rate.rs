//! How often something may be done: so many times at once, and then as fast as a rate (the generic cell rate algorithm, which
//! is a token bucket that remembers one moment). Pure: the time comes from outside.

/// A rate and a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Microseconds after which one more may be done.
    interval: i64,
    /// How many may be done at once.
    burst: i64,
}

/// What came of asking, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// How long to wait until it may be done; `None`: now, and it is counted.
    pub wait: Option<i64>,
    /// How many more may be done at once.
    pub left: i64,
    /// How long until the whole burst may be done at once again.
    pub whole_in: i64,
}

const MINUTE: i64 = 60_000_000;

impl Rate {
    /// So many a minute, so many of them at once; 0 a minute: as many as anybody likes, which is no rate.
    #[must_use]
    pub fn new(per_minute: u32, burst: u32) -> Option<Self> {
        let interval = MINUTE.checked_div(i64::from(per_minute))?.max(1);
        Some(Self { interval, burst: i64::from(burst.max(1)) })
    }

    /// How many may be done at once.
    #[must_use]
    pub fn burst(&self) -> i64 {
        self.burst
    }

    /// The time in which a burst that was used comes back whole.
    #[must_use]
    pub fn window(&self) -> i64 {
        self.interval.saturating_mul(self.burst)
    }

    /// Asks to do it once at `now`. `whole_at` is when the burst of this caller is whole; it is moved on if it may be done. A
    /// moment further away than the rate allows comes from a clock that was set back, and counts for no more than that.
    pub fn take(&self, whole_at: &mut i64, now: i64) -> Verdict {
        let window = self.window();
        let used = whole_at.saturating_sub(now).clamp(0, window);
        let after = used + self.interval;
        let (used, wait) = if after <= window { (after, None) } else { (used, Some(after - window)) };
        *whole_at = now.saturating_add(used);
        Verdict { wait, left: (window - used) / self.interval, whole_in: used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    /// 60 a minute, three at once.
    fn rate() -> Rate {
        Rate::new(60, 3).unwrap()
    }

    #[test]
    fn a_burst_goes_through_and_then_the_rate_holds() {
        let (rate, mut whole_at) = (rate(), 0);
        let left: Vec<_> = (0..3).map(|_| rate.take(&mut whole_at, SECOND)).map(|verdict| verdict.left).collect();
        assert_eq!(left, [2, 1, 0]);
        let refused = rate.take(&mut whole_at, SECOND);
        assert_eq!(refused, Verdict { wait: Some(SECOND), left: 0, whole_in: 3 * SECOND });
        // Refusals cost nothing: after the wait there is one more, and only one.
        assert_eq!(rate.take(&mut whole_at, 2 * SECOND - 1).wait, Some(1));
        assert_eq!(rate.take(&mut whole_at, 2 * SECOND).wait, None);
        assert_eq!(rate.take(&mut whole_at, 2 * SECOND).wait, Some(SECOND));
    }

    #[test]
    fn who_waits_has_the_whole_burst_again_and_never_more() {
        let (rate, mut whole_at) = (rate(), 0);
        while rate.take(&mut whole_at, 0).wait.is_none() {}
        assert_eq!(rate.take(&mut whole_at, 100 * SECOND), Verdict { wait: None, left: 2, whole_in: SECOND });
    }

    #[test]
    fn over_a_long_time_as_many_go_through_as_the_rate_says() {
        let (rate, mut whole_at) = (Rate::new(600, 10).unwrap(), 0);
        let asked = (0..60 * 1000).filter(|millis| rate.take(&mut whole_at, millis * 1000).wait.is_none());
        assert_eq!(
            asked.count(),
            600 + 9,
            "a minute's worth, and the burst but for the one that the rate gives at once"
        );
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out() {
        let (rate, mut whole_at) = (rate(), 3600 * SECOND);
        assert_eq!(rate.take(&mut whole_at, 0).wait, Some(SECOND));
        assert_eq!(rate.take(&mut whole_at, SECOND).wait, None);
    }

    #[test]
    fn none_a_minute_is_no_rate() {
        assert_eq!(Rate::new(0, 5), None);
        assert_eq!(Rate::new(u32::MAX, 0).unwrap().window(), 1);
    }
}
