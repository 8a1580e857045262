//! Prices of tasks: those of `data/pricing.toml`, or of the operator's file.

use std::path::Path;

use super::StartError;
use crate::domain::task::{Gateway, TaskKind};
use crate::domain::value::InvalidValue;
use crate::domain::video::Tariff;

/// Default prices.
const DEFAULT_PRICES: &str = include_str!("../../data/pricing.toml");

/// Reads and checks the prices.
pub(super) fn open_tariff(file: Option<&Path>) -> Result<Tariff, StartError> {
    let Some(file) = file else { return parse_tariff(DEFAULT_PRICES, "data/pricing.toml") };
    let source = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| invalid_prices(&source, &error))?;
    parse_tariff(&text, &source)
}

fn parse_tariff(text: &str, source: &str) -> Result<Tariff, StartError> {
    let tariff: Tariff = toml::from_str(text).map_err(|error| invalid_prices(source, &error))?;
    tariff.check().map_err(|reason| invalid_prices(source, &reason))?;
    check_image_kinds(&tariff).map_err(|reason| invalid_prices(source, &reason))?;
    Ok(tariff)
}

fn check_image_kinds(tariff: &Tariff) -> Result<(), InvalidValue> {
    let kinds: Vec<_> = TaskKind::ALL.iter().filter(|kind| kind.gateway() == Gateway::Image).collect();
    match tariff.image.keys().find(|name| !kinds.iter().any(|kind| kind.as_str() == **name)) {
        None => Ok(()),
        Some(unknown) => {
            let names: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
            Err(InvalidValue::new(format!("image.\"{unknown}\": must be one of {}", names.join(", "))))
        }
    }
}

fn invalid_prices(source: &str, reason: &dyn std::fmt::Display) -> StartError {
    StartError::part("video prices (video.pricing)", &format!("{source}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_in_a_price_list_are_reported_with_their_location() {
        assert!(open_tariff(None).is_ok());
        let error_for = |text: &str| parse_tariff(text, "prices.toml").unwrap_err().to_string();
        let edited = |from: &str, to: &str| DEFAULT_PRICES.replace(from, to);

        for (text, expected) in [
            (edited("[generate.\"vq1\"]", "[generate.\"vq7\"]"), "vq7"),
            (edited("\"2K\" = { seconds = [40], more = 40 }", "\"4K\" = { seconds = [40], more = 40 }"), "4K"),
            (edited("seconds = [40], more = 40", "seconds = [], more = 40"), "vq3-pro"),
            (edited("off_peak_percent = 50", "off_peak_percent = 101"), "off_peak_percent"),
            (edited("is_rec = 10", "is_rek = 10"), "is_rek"),
            (edited("more = 40", "more = -1"), "more"),
            (edited("more = 40", "more = 1000001"), "from 0 to 1000000, not 1000001"),
            (edited("seconds = [40], more = 40", "seconds = [3000000000], more = 40"), "vq3-pro"),
            (edited("[image]", "[image]\nimage-upscalers = 1"), "image-upscaler, image-upscaler-precision-v2"),
            (edited("image-upscaler = 0", "image-upscaler = 1000001"), "image-upscaler"),
            (edited("second = 0", "minute = 0"), "minute"),
            (edited("is_rec = 10", "is_rec = 2000000"), "is_rec: a price must be from 0 to 1000000"),
        ] {
            let message = error_for(&text);
            assert!(message.contains("prices.toml") && message.contains(expected), "{message}");
        }

        let absent = open_tariff(Some(Path::new("/no/such/prices.toml"))).unwrap_err().to_string();
        assert!(absent.contains("/no/such/prices.toml") && absent.contains("video.pricing"), "{absent}");
    }
}
