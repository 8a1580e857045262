//! The share of a node in work that all nodes do, by rendezvous hashing: each piece goes to the node with the highest
//! hash of node and piece. A node that joins or leaves therefore moves only the pieces that it gains or loses.

use uuid::Uuid;

/// Pieces of work that a node currently does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkShare {
    Nothing,
    Everything,
    /// The pieces that `own` gets among `nodes`.
    Part {
        own: Uuid,
        nodes: Vec<Uuid>,
    },
}

impl WorkShare {
    /// Returns `true` if this node does the piece of work with the number `work`.
    #[must_use]
    pub fn contains(&self, work: u128) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Part { own, nodes } => {
                let rank = |node: &Uuid| (score(*node, work), *node);
                nodes.iter().map(rank).max().is_some_and(|(_, node)| node == *own)
            }
        }
    }
}

/// Mixes the bits of node and work (`SplitMix64`). All nodes must use the same function.
fn score(node: Uuid, work: u128) -> u64 {
    let [node, work] = [node, Uuid::from_u128(work)].map(|id| {
        let (high, low) = id.as_u64_pair();
        mix(high ^ mix(low))
    });
    mix(node ^ work)
}

fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(own: u128, nodes: &[u128]) -> WorkShare {
        let nodes = nodes.iter().map(|node| Uuid::from_u128(*node)).collect();
        WorkShare::Part { own: Uuid::from_u128(own), nodes }
    }

    #[test]
    fn each_piece_has_one_node_and_all_nodes_have_similar_shares() {
        let nodes = [1, 2, 3];
        let mut counts = [0; 3];
        for work in 0..3000 {
            let owners: Vec<_> = (0..3).filter(|index| part(nodes[*index], &nodes).contains(work)).collect();
            assert_eq!(owners.len(), 1, "nodes that do piece {work}: {owners:?}");
            counts[owners[0]] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_node_that_leaves_moves_only_its_own_pieces() {
        for work in 0..1000 {
            for own in [1, 2] {
                let before = part(own, &[1, 2, 3]).contains(work);
                let after = part(own, &[1, 2]).contains(work);
                assert!(!before || after, "node {own} lost piece {work} when node 3 left");
            }
        }
    }

    #[test]
    fn the_hash_is_the_same_in_all_releases() {
        assert_eq!(score(Uuid::from_u128(1), 2), 4_663_958_372_678_035_468);
    }
}
