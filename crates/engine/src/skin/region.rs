//! Connected regions of a plane and their averages.

use crate::plane::Plane;

/// Returns for every sample the average of `values`, weighted by `weights`, over its region. A region consists of
/// 4-connected samples with weights above `threshold`. The result outside of regions is 0.
#[must_use]
pub fn averages(weights: &Plane, threshold: f32, values: &Plane) -> Plane {
    let labels = label_regions(weights, threshold);

    // For each label: the weighted sum of the values, and the sum of the weights.
    let mut sums = vec![[0.0_f64; 2]; weights.values().len() + 1];
    for ((label, weight), value) in labels.iter().zip(weights.values()).zip(values.values()) {
        let sum = &mut sums[*label as usize];
        *sum = [sum[0] + f64::from(weight * value), sum[1] + f64::from(*weight)];
    }

    let mut averages = Plane::new(weights.width(), weights.height());
    for (average, label) in averages.values_mut().iter_mut().zip(labels) {
        let [sum, total] = sums[label as usize];
        *average = if label == 0 { 0.0 } else { (sum / total.max(1e-9)) as f32 };
    }

    averages
}

/// Returns the label of the region of every sample, from 1; 0 means no region. Labels may have gaps.
fn label_regions(weights: &Plane, threshold: f32) -> Vec<u32> {
    let width = weights.width();
    let mut labels = vec![0_u32; weights.values().len()];
    // Union-find: each label refers to a lower label of the same region or to itself. Label 0 means no region.
    let mut equivalents = vec![0_u32];

    for (at, _) in weights.values().iter().enumerate().filter(|(_, weight)| **weight > threshold) {
        let left_label = if at % width > 0 { labels[at - 1] } else { 0 };
        let above_label = if at >= width { labels[at - width] } else { 0 };

        labels[at] = match (left_label, above_label) {
            (0, 0) => {
                let new_label = equivalents.len() as u32;
                equivalents.push(new_label);
                new_label
            }
            (0, known_label) | (known_label, 0) => known_label,
            // The sample connects two regions, which become one.
            (left_label, above_label) => {
                let left_root = find_root(&mut equivalents, left_label);
                let above_root = find_root(&mut equivalents, above_label);
                let low = left_root.min(above_root);
                let high = left_root.max(above_root);
                equivalents[high as usize] = low;
                low
            }
        };
    }

    labels.iter().map(|label| find_root(&mut equivalents, *label)).collect()
}

/// Returns the lowest label of the region that has `label`, and shortens the path to it.
fn find_root(equivalents: &mut [u32], mut label: u32) -> u32 {
    while equivalents[label as usize] != label {
        let next = equivalents[label as usize];
        equivalents[label as usize] = equivalents[next as usize];
        label = next;
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connected_regions_have_one_average() {
        let drawing = ["##..#", "#.#.#", "###.#", "....."];
        let weights = Plane::from_fn(5, 4, |x, y| if drawing[y].as_bytes()[x] == b'#' { 1.0 } else { 0.0 });
        let values = Plane::from_fn(5, 4, |x, y| if x == 4 { 7.0 } else { (x + y) as f32 });
        let averages = averages(&weights, 0.5, &values);
        let ring = (0.0 + 1.0 + 1.0 + 3.0 + 2.0 + 3.0 + 4.0) / 7.0;
        assert!((averages.row(2)[2] - ring).abs() < 1e-6);
        assert!((averages.row(0)[0] - ring).abs() < 1e-6);
        assert!((averages.row(0)[4] - 7.0).abs() < 1e-6);
        assert!(averages.row(1)[1].abs() < 1e-6);
    }
}
