//! Prices of videos: those of `data/pricing.toml`, or of the operator's file.

use std::path::Path;

use super::StartError;
use crate::domain::video::Tariff;

/// Default prices.
const DEFAULT_PRICES: &str = include_str!("../../data/pricing.toml");

/// Reads and checks the prices.
pub(super) fn open_tariff(file: Option<&Path>) -> Result<Tariff, StartError> {
    let Some(file) = file else { return parse_tariff(DEFAULT_PRICES, "data/pricing.toml") };
    let place = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| invalid_prices(&place, &error))?;
    parse_tariff(&text, &place)
}

fn parse_tariff(text: &str, place: &str) -> Result<Tariff, StartError> {
    let tariff: Tariff = toml::from_str(text).map_err(|error| invalid_prices(place, &error))?;
    tariff.check().map_err(|reason| invalid_prices(place, &reason))?;
    Ok(tariff)
}

fn invalid_prices(place: &str, reason: &dyn std::fmt::Display) -> StartError {
    StartError::part("video prices (video.pricing)", &format!("{place}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_price_list_is_named() {
        assert!(open_tariff(None).is_ok());
        let told = |text: &str| parse_tariff(text, "prices.toml").unwrap_err().to_string();
        let usual = |from: &str, to: &str| DEFAULT_PRICES.replace(from, to);

        for (text, named) in [
            (usual("[generate.\"vq1\"]", "[generate.\"vq7\"]"), "vq7"),
            (usual("\"2K\" = { seconds = [40], more = 40 }", "\"4K\" = { seconds = [40], more = 40 }"), "4K"),
            (usual("seconds = [40], more = 40", "seconds = [], more = 40"), "vq3-pro"),
            (usual("off_peak_percent = 50", "off_peak_percent = 101"), "off_peak_percent"),
            (usual("is_rec = 10", "is_rek = 10"), "is_rek"),
            (usual("more = 40", "more = -1"), "more"),
            (usual("more = 40", "more = 1000001"), "from 0 to 1000000, not 1000001"),
            (usual("seconds = [40], more = 40", "seconds = [3000000000], more = 40"), "vq3-pro"),
            (usual("is_rec = 10", "is_rec = 2000000"), "is_rec: a price must be from 0 to 1000000"),
        ] {
            let told = told(&text);
            assert!(told.contains("prices.toml") && told.contains(named), "{told}");
        }

        let absent = open_tariff(Some(Path::new("/no/such/prices.toml"))).unwrap_err().to_string();
        assert!(absent.contains("/no/such/prices.toml") && absent.contains("video.pricing"), "{absent}");
    }
}
